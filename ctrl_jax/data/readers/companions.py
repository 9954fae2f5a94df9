"""Two files of one text: line by line, or one beside the other."""

import itertools
import os
from collections.abc import Iterator

from ctrl_jax import errors
from ctrl_jax.data import buckets, files


def beside(file: str, old: str, new: str) -> str:
  """Returns the file whose name has `new` where this one's has `old`.

  Raises:
    errors.UserError: its name has no `old`, or there is no such file.
  """
  folder, name = os.path.split(file)
  start, found, end = name.rpartition(old)
  if not found:
    raise errors.UserError(
        f"{file!r}: its name has no {old!r}. Name the files that have; those"
        f" with {new!r} beside them are found."
    )
  other = os.path.join(folder, start + new + end)
  if buckets.size(other) is None:
    raise errors.UserError(
        f"{other!r} is missing: it belongs to {file!r}, line by line."
    )
  return other


def line_by_line(
    file: str, first: Iterator[str], other: str, second: Iterator[str]
) -> Iterator[tuple[int, str, str]]:
  """Yields (number from 1, item of `file`, item of `other`), both stripped.

  Raises:
    errors.UserError: one has more items than the other.
  """
  for number, (a, b) in enumerate(itertools.zip_longest(first, second), 1):
    if a is None or b is None:
      short, long = (file, other) if a is None else (other, file)
      raise errors.UserError(
          f"{short!r} has {number - 1} texts, {long!r} has more: they do not"
          " belong together. Get both again."
      )
    yield number, a.strip(), b.strip()


def pairs(file: str, other: str) -> Iterator[tuple[int, str, str]]:
  """Yields (number, line, line of the other file); see `line_by_line`."""
  return line_by_line(file, files.lines(file), other, files.lines(other))
