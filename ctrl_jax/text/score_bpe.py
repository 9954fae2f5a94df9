"""BPE whose merges are ranked by the piece they make: Llama's tokenizers.

Of all neighbours that make a piece, those that make the one of the best score
are joined first, the leftmost first among equals. So do SentencePiece's BPE
models, of which llama2.c and GGUF keep pieces and scores alone. Characters
without a piece are spelt in bytes.
"""

import enum
import heapq
import json
import math
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

from ctrl_jax import errors
from ctrl_jax.text import tokenizer

FILE = "score_bpe.json"
# What SentencePiece writes for a space, inside pieces.
SPACE = "\u2581"


class Kind(enum.IntEnum):
  """What a piece is, numbered as in SentencePiece and GGUF."""

  NORMAL = 1
  UNKNOWN = 2
  CONTROL = 3
  USER_DEFINED = 4  # Found in the text before all else.
  UNUSED = 5
  BYTE = 6  # "<0x41>"


class ScoreBPE(tokenizer.Tokenizer):
  """Pieces and scores; words of control codes get ids behind the pieces.

  `decode(encode(text)) == text` where bytes have pieces. Text that holds `<s>`
  does not yield the symbol's id. U+2581 in a text is a character, no space.

  Args:
    pieces: by id; a space is written U+2581.
    scores: a number each.
    kinds: a `Kind` each.
    begin_id: what begins every text, None for nothing.
    end_id: what ends a document, None for nothing.
    space_in_front: whether a space is put in front of every text, so that its
      first word is spelt as the others are.
    codes: control codes; each of their words is a token of its own.

  Raises:
    errors.UserError: not as many scores or kinds as pieces, an id outside, a
      score that is no number, or nothing to spell unknown characters with.
  """

  def __init__(
      self,
      pieces: Sequence[str],
      scores: Sequence[float],
      kinds: Sequence[int],
      *,
      begin_id: int | None,
      end_id: int | None,
      space_in_front: bool,
      codes: Sequence[str] = (),
  ):
    _check(pieces, scores, kinds, begin_id, end_id)
    self._pieces, self._scores = list(pieces), list(map(float, scores))
    self._kinds, self._space_in_front = list(map(int, kinds)), space_in_front
    self._begin_id, self.end_id = begin_id, end_id
    self.begin_ids = () if begin_id is None else (begin_id,)
    self.codes = tuple(codes)
    words = dict.fromkeys(w for code in codes for w in code.split())
    self._code_words = {w: len(pieces) + i for i, w in enumerate(words)}
    self.vocab_size = len(pieces) + len(words)
    of_kind = lambda kind: [i for i, k in enumerate(kinds) if k == kind]
    self.unknown_id = next(iter(of_kind(Kind.UNKNOWN)), None)
    self._bytes = {int(pieces[i][1:-1], 16): i for i in of_kind(Kind.BYTE)}
    if self.unknown_id is None and len(self._bytes) < 256:
      raise errors.UserError(
          "The tokenizer has neither an unknown token nor one for each byte."
      )
    # Reversed, so that the first of two equal pieces counts.
    self._ids = {
        self._text(i): i
        for i in reversed([*of_kind(Kind.NORMAL), *of_kind(Kind.USER_DEFINED)])
    }
    given = sorted(map(self._text, of_kind(Kind.USER_DEFINED)), key=len)
    self._given = (
        re.compile(f"({'|'.join(map(re.escape, reversed(given)))})")
        if given else None
    )

  def _text(self, i: int) -> str:
    return self._pieces[i].replace(SPACE, " ")

  @property
  def tokens(self) -> list[str]:
    """The pieces by id."""
    return [*self._pieces, *self._code_words]

  @property
  def code_words(self) -> Mapping[str, int]:
    """Every word of a control code and its id."""
    return self._code_words

  def encode(self, text: str) -> list[int]:
    """Returns the ids of `text`, `begin_ids` not among them."""
    if not text:
      return []
    # Half a surrogate pair is no character; U+FFFD is what decoders make of it.
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    if self._space_in_front:
      text = " " + text
    if self._given is None:
      return self._encode(text)
    ids = []
    for i, part in enumerate(self._given.split(text)):
      ids += [self._ids[part]] if i % 2 else self._encode(part)
    return ids

  def _encode(self, text: str) -> list[int]:
    ids = []
    for symbol in self._merge(text):
      found = self._ids.get(symbol)
      if found is not None:
        ids.append(found)
      else:
        ids += [self._bytes.get(b, self.unknown_id) for b in symbol.encode()]
    return ids

  def _merge(self, text: str) -> list[str]:
    """Joins characters; a queue holds the neighbours that make a piece."""
    symbols: list[str | None] = list(text)
    after = list(range(1, len(text) + 1))
    before = list(range(-1, len(text) - 1))
    queue = []

    def look(left, right):
      if left < 0 or right == len(symbols):
        return
      joined = symbols[left] + symbols[right]
      i = self._ids.get(joined)
      if i is not None:
        heapq.heappush(queue, (-self._scores[i], left, right, joined))

    for left in range(len(text) - 1):
      look(left, left + 1)
    while queue:
      _, left, right, joined = heapq.heappop(queue)
      # What has changed since then is no pair any more.
      if symbols[left] is None or symbols[right] is None or (
          symbols[left] + symbols[right] != joined or after[left] != right
      ):
        continue
      symbols[left], symbols[right] = joined, None
      after[left] = after[right]
      if after[right] < len(symbols):
        before[after[right]] = left
      look(before[left], left)
      look(left, after[left])
    return [s for s in symbols if s is not None]

  def pieces(self, text: str) -> list[str]:
    """Returns the pieces `text` is cut into; a space is written U+2581."""
    return [self._pieces[i] for i in self.encode(text)]

  def decode(self, ids: Iterable[int]) -> str:
    """Returns the text of `ids`; bytes that are no UTF-8 give U+FFFD."""
    parts = []
    for i in self.check_ids(ids):
      kind = self._kinds[i] if i < len(self._kinds) else Kind.CONTROL
      if kind == Kind.BYTE:
        parts.append(bytes([int(self._pieces[i][1:-1], 16)]))
      elif kind == Kind.UNKNOWN:
        parts.append("\ufffd".encode())
      elif kind != Kind.CONTROL:
        parts.append(self._text(i).encode())
    text = b"".join(parts).decode("utf-8", "replace")
    return text.removeprefix(" ") if self._space_in_front else text

  def with_codes(self, codes: Sequence[str]) -> "ScoreBPE":
    """Returns this tokenizer with `codes` known, too."""
    codes = tuple(dict.fromkeys([*self.codes, *codes]))
    return _make(self._content(), codes)

  def _content(self) -> dict:
    return dict(
        pieces=self._pieces, scores=self._scores, kinds=self._kinds,
        begin_id=self._begin_id, end_id=self.end_id,
        space_in_front=self._space_in_front,
    )

  def files(self) -> dict[str, bytes]:
    """Returns the configuration, and pieces and scores."""
    content = json.dumps(self._content(), ensure_ascii=False)
    return {
        tokenizer.CONFIG_FILE: tokenizer.config_file("score_bpe", self.codes),
        FILE: content.encode(),
    }

  def __reduce__(self):
    return _make, (self._content(), self.codes)


def _make(content: Mapping, codes: Sequence[str]) -> ScoreBPE:
  return ScoreBPE(**content, codes=codes)


def load(folder: pathlib.Path, config: Mapping) -> ScoreBPE:
  """Returns the tokenizer whose files lie in `folder`.

  Raises:
    errors.UserError: the file is missing or damaged.
  """
  file = folder / FILE
  codes = config.get("codes", [])
  tokenizer.check_codes(codes, folder)
  if not file.is_file():
    raise errors.UserError(f"The tokenizer's {str(file)!r} is missing.")
  try:
    return _make(json.loads(file.read_text(encoding="utf-8")), codes)
  except errors.UserError:
    raise
  except (ValueError, TypeError, RecursionError) as e:
    raise errors.UserError(f"{file} is damaged ({e}): copy it again.") from e


def _check(pieces, scores, kinds, begin_id, end_id) -> None:
  if not len(pieces) == len(scores) == len(kinds) > 0:
    raise errors.UserError(
        f"The tokenizer has {len(pieces)} pieces, {len(scores)} scores and"
        f" {len(kinds)} kinds of them: it is damaged."
    )
  for i, (piece, score, kind) in enumerate(zip(pieces, scores, kinds)):
    good = isinstance(piece, str) and isinstance(score, int | float) and (
        math.isfinite(score) and kind in list(Kind)
    )
    if good and kind == Kind.BYTE:
      good = re.fullmatch("<0x[0-9A-Fa-f]{2}>", piece)
    if not good or re.search("[\ud800-\udfff]", piece):
      raise errors.UserError(
          f"The tokenizer's piece {i} is {piece!r}, score {score!r}, kind"
          f" {kind!r}: it is damaged."
      )
  for name, i in (("begins", begin_id), ("ends", end_id)):
    if i is not None and not (type(i) is int and 0 <= i < len(pieces)):
      raise errors.UserError(
          f"The token that {name} a text, {i!r}, is none of the"
          f" {len(pieces)}."
      )
