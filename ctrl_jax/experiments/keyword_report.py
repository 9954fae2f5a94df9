"""Table and curves of the keyword task, from its lines."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.figure
import numpy as np

from ctrl_jax.evaluation import output, plots
from ctrl_jax.experiments import keyword_methods

Line = Mapping[str, Any]


def collect(folder) -> dict[str, list[Line]]:
  """Returns method -> its lines, all seeds, in the order of the steps."""
  found = {}
  for file in sorted(pathlib.Path(folder).glob("*.jsonl")):
    for line in keyword_methods.read_lines(file):
      found.setdefault(line["method"], []).append(line)
  for lines in found.values():
    lines.sort(key=lambda line: (line["step"], line["seed"]))
  return found


def table(found: Mapping[str, Sequence[Line]]) -> str:
  """Returns a Markdown table: each method at the end of its budget.

  Numbers are means over seeds; the interval is of the samples, 95 %, of the
  first seed, and over several seeds their range stands behind.
  """
  rows = [
      "| method | accuracy % | SLOR | test perplexity | distinct-2 | base"
      " perplexity | tokens/s |",
      "|---|---|---|---|---|---|---|",
  ]
  for name, lines in found.items():
    last = [line for line in lines if line["step"] == lines[-1]["step"]]
    cells = [
        name,
        _cell(last, ("accuracy",), 100, 1),
        _cell(last, ("slor",), 1, 2),
        _plain(last, ("test_perplexity",), 1),
        _plain(last, ("diversity", "distinct_2"), 2),
        _plain(last, ("base_perplexity",), 1),
        _plain(last, ("tokens_per_second",), 0),
    ]
    rows.append(f"| {' | '.join(cells)} |")
  return "\n".join(rows) + "\n"


def _value(line: Line, path: Sequence[str]) -> float | None:
  for name in path:
    line = line.get(name) if isinstance(line, Mapping) else None
  return line


def _plain(lines, path, digits: int) -> str:
  values = [_value(line, path) for line in lines]
  values = [v for v in values if v is not None]
  return f"{np.mean(values):.{digits}f}" if values else "–"


def _cell(lines, path, scale: float, digits: int) -> str:
  values = [scale * _value(line, path)["value"] for line in lines]
  low, high = (scale * _value(lines[0], path)[k] for k in ("low", "high"))
  text = f"{np.mean(values):.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
  if len(values) > 1:
    text += f" ({min(values):.{digits}f}–{max(values):.{digits}f})"
  return text


def curves(
    file, found: Mapping[str, Sequence[Line]], x: str = "step"
) -> None:
  """Draws SLOR and accuracy against training (the paper's Figure 3).

  Args:
    file: PNG to write.
    found: from `collect`; methods without training are horizontal lines.
    x: "step" or "flops".
  """
  figure = matplotlib.figure.Figure(figsize=(10, 4), dpi=120)
  axes = figure.subplots(1, 2)
  for i, (name, lines) in enumerate(found.items()):
    colour = plots.COLOURS[i % len(plots.COLOURS)]
    for axis, path, scale in zip(axes, ("slor", "accuracy"), (1, 100)):
      if x not in lines[0] or lines[-1]["step"] == 0:
        value = scale * lines[-1][path]["value"]
        axis.axhline(value, color=colour, linestyle=":", label=name)
        continue
      by_x = {}
      for line in lines:
        by_x.setdefault(line[x], []).append(scale * line[path]["value"])
      places = sorted(by_x)
      means = [np.mean(by_x[p]) for p in places]
      axis.plot(places, means, color=colour, marker="o", ms=3, label=name)
      if max(map(len, by_x.values())) > 1:
        axis.fill_between(
            places, [min(by_x[p]) for p in places],
            [max(by_x[p]) for p in places], color=colour, alpha=0.2,
        )
  for axis, name in zip(axes, ("SLOR", "accuracy, %")):
    axis.set_xlabel("training steps" if x == "step" else "training FLOPs")
    axis.set_ylabel(name)
    axis.grid(alpha=0.3)
  axes[1].legend(fontsize=7)
  figure.tight_layout()
  plots.save(figure, file)


def write(folder) -> str:
  """Writes table.md, curves and curves over FLOPs; returns the table."""
  folder = pathlib.Path(folder)
  found = collect(folder)
  text = table(found)
  output.write_bytes(folder / "table.md", text.encode("utf-8"))
  curves(folder / "curves.png", found)
  curves(folder / "curves_flops.png", found, "flops")
  return text
