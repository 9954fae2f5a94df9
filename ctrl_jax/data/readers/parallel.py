"""Texts in two languages, line by line: Europarl, the UN's, WMT's.

`europarl-v7.de-en.en` and `europarl-v7.de-en.de`: line n of one is the
translation of line n of the other; either is empty where a sentence has none.

Source: statmt.org/europarl, statmt.org/wmt13/translation-task.html.
"""

import itertools
from collections.abc import Iterator, Sequence

from ctrl_jax import errors
from ctrl_jax.data import files


def read(path: Sequence[str]) -> Iterator[tuple[dict, str]]:
  """Yields pairs: `source` and `target`, without their line ends.

  Pairs of which one side is empty are passed over.

  Args:
    path: two paths, the source's and the target's; with globs, the files are
      paired in the order of their names.

  Raises:
    errors.UserError: not two paths, a file is missing or damaged, or two that
      belong together have different numbers of lines.
  """
  if len(path) != 2:
    raise errors.UserError(
        f"A source of kind 'parallel' needs two paths, one a language; it has"
        f" {len(path)}: {', '.join(path)}."
    )
  sources, targets = files.find(path[:1]), files.find(path[1:])
  if len(sources) != len(targets):
    raise errors.UserError(
        f"{path[0]!r} names {len(sources)} files and {path[1]!r}"
        f" {len(targets)}: each needs its translation."
    )
  for a, b in zip(sources, targets):
    yield from _pairs(a, b)


def _pairs(a: str, b: str) -> Iterator[tuple[dict, str]]:
  lines = itertools.zip_longest(files.lines(a), files.lines(b))
  for number, (source, target) in enumerate(lines, 1):
    if source is None or target is None:
      shorter, longer = (a, b) if source is None else (b, a)
      raise errors.UserError(
          f"{shorter} ends at line {number - 1}, before {longer}: they are no"
          " translations line by line. Get both again."
      )
    source, target = source.strip(), target.strip()
    if source and target:
      yield {"source": source, "target": target}, f"{a}:{number}"
