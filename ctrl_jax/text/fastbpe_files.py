"""Reads CTRL's tokenizer: the release's files, or those of Hugging Face."""

import json
import pathlib
from collections.abc import Mapping

from ctrl_jax import errors
from ctrl_jax.text import bpe_files, ctrl_codes, fastbpe, tokenizer


def load(folder: pathlib.Path, config: Mapping) -> fastbpe.FastBPE:
  """Returns the tokenizer whose files lie in `folder`.

  Args:
    folder: with `codes` and `vocab`, as the release, or with `vocab.json` and
      `merges.txt`, as Hugging Face keeps CTRL's.
    config: `codes`, a list of control codes (without it those of
      `control_codes.txt` beside, or CTRL's own, as far as they are tokens),
      and `newlines`.

  Raises:
    errors.UserError: a file is missing or damaged, or they do not fit each
      other.
  """
  if (folder / fastbpe.CODES_FILE).is_file():
    paths = folder / fastbpe.CODES_FILE, folder / fastbpe.VOCAB_FILE
    merges = [(a, b) for a, b, _ in bpe_files.rows(paths[0], 3)]
    vocab = [token for token, _ in bpe_files.rows(paths[1], 2)]
  else:
    paths = folder / "merges.txt", folder / "vocab.json"
    merges = [
        (a, b) for a, b in bpe_files.rows(paths[0], 2, header="#version")
    ]
    vocab = _json_vocab(paths[1])
  codes = config.get("codes")
  if codes is None:
    known = ctrl_codes.PRIORS
    if (folder / ctrl_codes.FILE).is_file():
      known = ctrl_codes.read(folder / ctrl_codes.FILE)
    tokens = set(vocab)
    codes = [code for code in known if code in tokens]
  newlines = config.get("newlines", "generation")
  tokenizer.check_codes(codes, folder)
  bpe_files.check_order(merges, paths[0])
  words = {word for code in codes for word in code.split()}  # Added by hand.
  bpe_files.check_reachable(vocab, _symbol, merges, words.__contains__, paths)
  return fastbpe.FastBPE(merges, vocab, codes, newlines)


def _symbol(piece: str) -> str:
  """What a merge must make for a piece of the vocabulary."""
  goes_on = piece.endswith(fastbpe.GOES_ON) and piece != fastbpe.GOES_ON
  return piece[: -len(fastbpe.GOES_ON)] if goes_on else piece + bpe_files.END


def _json_vocab(file: pathlib.Path) -> list[str]:
  """The tokens of a `vocab.json` by id, without the three at the end."""
  try:
    content = json.loads(file.read_text(encoding="utf-8"))
    tokens = sorted(content, key=content.get)
    "".join(tokens).encode("utf-8")  # Half surrogate pairs are no text.
    complete = sorted(content.values()) == list(range(len(tokens)))
  except FileNotFoundError as e:
    raise errors.UserError(
        f"The tokenizer's file {str(file)!r} is missing: copy it there."
    ) from e
  except (ValueError, TypeError, AttributeError, RecursionError) as e:
    raise errors.UserError(
        f"{file} is no vocabulary in JSON ({e}): copy it again."
    ) from e
  if not complete or tokens[-3:] != ["", fastbpe.UNKNOWN, "\n"]:
    raise errors.UserError(
        f"{file} is not CTRL's: its ids must be 0, 1, 2, ..., the last three"
        f" those of the empty word, {fastbpe.UNKNOWN} and the line end."
    )
  return tokens[:-3]
