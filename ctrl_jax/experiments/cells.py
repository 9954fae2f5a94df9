"""Cells of an experiment's table: means over seeds, intervals over texts."""

from collections.abc import Mapping, Sequence

import numpy as np

from ctrl_jax.experiments.lines import Line

NONE = "–"


def value(line: Line, path: Sequence[str]) -> float | Mapping | None:
  """Returns what lies at a path of a line; None where nothing does."""
  for name in path:
    line = line.get(name) if isinstance(line, Mapping) else None
  return line


def mean(
    lines: Sequence[Line],
    path: Sequence[str],
    digits: int,
    scale: float = 1.0,
) -> str:
  """Returns the mean over lines that have the number, one a seed."""
  values = [value(line, path) for line in lines]
  values = [v for v in values if v is not None]
  return f"{scale * np.mean(values):.{digits}f}" if values else NONE


def interval(
    lines: Sequence[Line],
    path: Sequence[str],
    digits: int,
    scale: float = 1.0,
) -> str:
  """Returns the mean over seeds, its interval over texts, and their range.

  The interval's bounds are means, too, of the bounds of each seed: as wide as
  that of one seed, where the texts are the same, and so rather too wide.

  Args:
    lines: one a seed.
    path: of a number with value, low and high (95 %, over texts).
    digits: behind the point.
    scale: 100 for percent.
  """
  found = [value(line, path) for line in lines]
  found = [x for x in found if x is not None]
  if not found:
    return NONE
  show = lambda x: f"{scale * x:.{digits}f}"
  values = [x["value"] for x in found]
  low, high = (np.mean([x[name] for x in found]) for name in ("low", "high"))
  text = f"{show(np.mean(values))} [{show(low)}, {show(high)}]"
  if len(values) > 1:
    text += f" ({show(min(values))}–{show(max(values))})"
  return text


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
  """Returns a Markdown table."""
  lines = [head, ["---"] * len(head), *rows]
  return "".join(f"| {' | '.join(row)} |\n" for row in lines)
