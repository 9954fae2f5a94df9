"""Held-out documents of a prepared data set, as evaluations want them."""

import dataclasses
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from ctrl_jax import errors
from ctrl_jax.data import files


@dataclasses.dataclass(frozen=True)
class Document:
  """A held-out text.

  Attributes:
    code: the control code it came with.
    text: what `ids` spell.
    ids: its token ids, without a code.
  """

  code: str
  text: str
  ids: tuple[int, ...]


def read(file) -> Iterator[tuple[str, str]]:
  """Yields (code, text) of JSON lines with the fields `code` and `text`.

  Args:
    file: path of a `.jsonl` or `.jsonl.gz` file.

  Raises:
    errors.UserError: the file is missing, or a line is not as it should be.
  """
  file = str(file)
  try:
    for number, line in enumerate(files.lines(file), 1):
      try:
        record = json.loads(line)
        yield str(record["code"]), str(record["text"])
      except (ValueError, KeyError, TypeError) as e:
        raise errors.UserError(
            f"{file}:{number}: not a JSON object with `code` and `text`."
        ) from e
  except FileNotFoundError as e:
    raise errors.UserError(
        f"No documents {file!r}: the data set has no such split, or was made by"
        " another version. Prepare it again."
    ) from e


def select(
    file,
    tokenizer: Any,
    codes: Sequence[str],
    *,
    min_tokens: int,
    max_tokens: int,
    max_documents: int,
    seed: int = 0,
) -> list[Document]:
  """Picks documents at random, the same ones for the same arguments.

  Args:
    file: see `read`.
    tokenizer: a `ctrl_jax.text.Tokenizer`.
    codes: documents of other codes are left out; also the order of the result.
    min_tokens: shorter documents are left out.
    max_tokens: longer ones are cut to so many; 0 cuts none.
    max_documents: at most so many a code.
    seed: of the choice.
  """
  texts = {code: [] for code in codes}
  for code, text in read(file):
    if code in texts:
      texts[code].append(text)
  found = []
  for code, candidates in texts.items():
    random.Random(seed).shuffle(candidates)
    num_found = 0
    for text in candidates:
      if num_found == max_documents:
        break
      ids = tokenizer.encode(text)
      if len(ids) < max(min_tokens, 1):
        continue
      if max_tokens and len(ids) > max_tokens:
        ids = ids[:max_tokens]
        text = tokenizer.decode(ids)
      found.append(Document(code, text, tuple(ids)))
      num_found += 1
  return found
