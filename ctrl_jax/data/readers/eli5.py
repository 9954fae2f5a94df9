"""ELI5: questions of r/explainlikeimfive and their best answers.

`explainlikeimfive_train.json` is one JSON list of objects with `question` (the
post's title and text, `--T--` between them), `document` (web pages, not read
here) and `answer`.

Source: Fan et al. 2019; github.com/facebookresearch/ELI5,
data_creation/select_sentences_tfidf.py and finalize_qda.py.
"""

import codecs
import json
from collections.abc import Iterator, Sequence

from ctrl_jax import errors
from ctrl_jax.data import files

_MARK = " --T-- "
_CHUNK = 1 << 20


def read(path: Sequence[str]) -> Iterator[tuple[dict, str]]:
  """Yields posts: `title`, `selftext`, `text` (as reddit's) and `answer`.

  The file is read piece by piece: with its web pages it has gigabytes.

  Raises:
    errors.UserError: a file is missing or damaged, or is not of this format.
  """
  for file in files.find(path):
    for number, item in enumerate(_items(file), 1):
      where = f"{file}, item {number}"
      try:
        title, _, body = item["question"].partition(_MARK)
        title, body, answer = title.strip(), body.strip(), item["answer"]
      except (KeyError, TypeError, AttributeError) as e:
        raise errors.UserError(
            f"{where}: no `question` and `answer`, as ELI5 has them ({e!r})."
        ) from e
      text = f"Title: {title}" + (f" Text: {body}" if body else "")
      yield dict(title=title, selftext=body, text=text, answer=answer), where


def _items(file: str) -> Iterator:
  """Yields the items of a JSON list, a chunk of the file in memory at a time.
  """
  decoder = json.JSONDecoder()
  rest, allowed = "", "["  # What may come next, "{" for an item.
  for chunk in _chunks(file):
    rest += chunk
    while rest := rest.lstrip(" \t\r\n"):
      mark = rest[0]
      if mark not in allowed:
        raise _no_list(file, rest)
      if mark == "{":
        try:
          item, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):
          break  # Cut in the middle, as far as can be told: read on.
        yield item
        rest, allowed = rest[end:], ",]"
      else:
        rest, allowed = rest[1:], {"[": "{]", ",": "{", "]": ""}[mark]
  if rest or allowed:
    raise _no_list(file, rest)


def _no_list(file: str, rest: str) -> errors.UserError:
  return errors.UserError(
      f"{file}: cut short, or no JSON list of objects, at {rest[:40]!r}. Get it"
      " again."
  )


def _chunks(file: str) -> Iterator[str]:
  decoder = codecs.getincrementaldecoder("utf-8")()
  with files.naming_damage(file), files.open_binary(file) as f:
    try:
      while data := f.read(_CHUNK):
        yield decoder.decode(data)
      yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as e:
      raise errors.UserError(
          f"{file}: not UTF-8 text. Convert the file to UTF-8."
      ) from e
