"""Files of merges and vocabularies, and what shows that one was cut short.

Cut at a line end, such a file still reads well and gives other ids. But each
merge joins characters and what merges before it made, and a piece of the
vocabulary is a character or what a merge made. (Not the other way round: a
merge may make what is in no vocabulary.)
"""

import pathlib
from collections.abc import Callable, Iterable, Sequence

from ctrl_jax import errors

# Behind the last character of a word.
END = "</w>"


def rows(file: pathlib.Path, width: int, header: str = "") -> list[list[str]]:
  """Returns the fields of a file's lines.

  They are cut at U+0020 and U+000A alone: other white space is part of a token.

  Args:
    file: in UTF-8.
    width: fields of a line.
    header: how a first line begins that holds no fields.

  Raises:
    errors.UserError: the file is missing, empty or damaged.
  """
  try:
    text = file.read_bytes().decode("utf-8-sig")
  except FileNotFoundError as e:
    raise errors.UserError(
        f"The tokenizer's file {str(file)!r} is missing: copy it there."
    ) from e
  except UnicodeDecodeError as e:
    raise errors.UserError(
        f"{file} is not UTF-8 (byte {e.start}): it is damaged. Copy it again."
    ) from e
  found = lines(file, text)
  if found and all(line.endswith("\r") for line in found):  # From Windows.
    found = [line[:-1] for line in found]
  cut = [line.split(" ") for line in found]
  if header and found and found[0].startswith(header):
    del cut[0]
  for number, row in enumerate(cut, 1):
    if len(row) != width or "" in row:
      raise errors.UserError(
          f"{file}, line {number + (len(found) > len(cut))}: expected {width}"
          f" fields with single spaces between them, found {len(row)}. The file"
          " is damaged or of another kind."
      )
  if not cut:
    raise errors.UserError(f"{file} is empty: copy it again.")
  return cut


def lines(file: pathlib.Path, text: str) -> list[str]:
  """Returns a file's lines.

  Args:
    file: for the message.
    text: its content.

  Raises:
    errors.UserError: the last line has no end.
  """
  *found, last = text.split("\n")
  if last:
    raise errors.UserError(
        f"{file} ends in the middle of a line, {last[-40:]!r}: it was cut"
        " short. Copy it again."
    )
  return found


def check_order(merges: Sequence[tuple[str, str]], file: pathlib.Path) -> None:
  """Checks that each merge joins what there is by then.

  Args:
    merges: pairs of symbols, the best rank first.
    file: where they were.

  Raises:
    errors.UserError: one does not.
  """
  made = set()
  for first, second in merges:
    for part in (first, second):
      if part not in made and not _is_character(part):
        raise errors.UserError(
            f"{file} is damaged: {first!r} and {second!r} are merged, but no"
            f" line before makes {part!r}. Copy it again."
        )
    made.add(first + second)


def check_reachable(
    pieces: Iterable[str],
    symbol: Callable[[str], str],
    merges: Iterable[Sequence[str]],
    is_given: Callable[[str], bool],
    files: Sequence[pathlib.Path],
) -> None:
  """Checks that merges make every piece that is more than a character.

  Args:
    pieces: the vocabulary.
    symbol: returns what a merge must make for a piece.
    merges: pairs of symbols.
    is_given: whether a piece is no part of a text, and made by nothing.
    files: those of the merges and of the vocabulary.

  Raises:
    errors.UserError: there is a piece that they do not make.
  """
  made = set(map("".join, merges))
  lacking = [
      piece for piece in pieces
      if (wanted := symbol(piece)) not in made
      and not _is_character(wanted) and not is_given(piece)
  ]
  if lacking:
    raise errors.UserError(
        f"{files[0]} and {files[1].name} do not fit each other:"
        f" {len(lacking)} pieces of the vocabulary, {lacking[0]!r} the first,"
        " are made by no merge. One was cut short, or is of another tokenizer:"
        " copy both again."
    )


def _is_character(symbol: str) -> bool:
  return len(symbol.removesuffix(END)) < 2
