"""Amazon reviews, as McAuley's group publishes them.

`reviews_Books.json.gz` has an object a line with `overall` (1.0 to 5.0),
`summary` and `reviewText`; some of its files are JSON, the complete ones of
2014 are Python's literals ("loose JSON").

Source: McAuley et al. 2015, jmcauley.ucsd.edu/data/amazon.
"""

import ast
import json
from collections.abc import Iterator, Sequence

from ctrl_jax import errors
from ctrl_jax.data import files


def read(path: Sequence[str]) -> Iterator[tuple[dict, str]]:
  """Yields reviews: `overall` (as "5.0"), `summary` and `reviewText`.

  Reviews without a text are passed over.

  Raises:
    errors.UserError: a file is missing or damaged, or a line is no review.
  """
  for file in files.find(path):
    for number, line in enumerate(files.lines(file), 1):
      if not line.strip():
        continue
      where = f"{file}:{number}"
      fields = _parse(line, where)
      text = fields.get("reviewText") or ""
      if not isinstance(text, str):
        raise errors.UserError(f"{where}: `reviewText` is no text.")
      if text.strip():
        stars = _stars(fields.get("overall"), where)
        yield {"summary": "", **fields, "overall": stars}, where


def _stars(value, where: str) -> str:
  try:
    stars = float(value)
  except (TypeError, ValueError, OverflowError):
    stars = 0.0
  if isinstance(value, bool) or not 1 <= stars <= 5:
    raise errors.UserError(
        f"{where}: `overall` must be 1 to 5 stars, not {repr(value)[:40]}."
    )
  return f"{stars:.1f}"


def _parse(line: str, where: str) -> dict:
  try:
    fields = json.loads(line)
  except (ValueError, RecursionError):
    try:
      fields = ast.literal_eval(line)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
      fields = None
  if not isinstance(fields, dict):
    raise errors.UserError(
        f"{where}: neither a JSON object nor a dict of Python, {line[:40]!r}."
    )
  return fields
