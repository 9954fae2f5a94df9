"""Table and curves of the keyword task, from its lines."""

import pathlib
from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np

from ctrl_jax.evaluation import output, plots
from ctrl_jax.experiments import cells, lines
from ctrl_jax.experiments.lines import Line


def table(found: Mapping[str, Sequence[Line]]) -> str:
  """Returns a Markdown table: each method at the end of its budget.

  Numbers are means over seeds; see `cells.interval`.
  """
  rows = []
  for name, of_method in found.items():
    last = lines.last(of_method)
    rows.append([
        name,
        cells.interval(last, ("accuracy",), 1, 100),
        cells.interval(last, ("slor",), 2),
        cells.mean(last, ("test_perplexity",), 1),
        cells.mean(last, ("diversity", "distinct_2"), 2),
        cells.mean(last, ("base_perplexity",), 1),
        cells.mean(last, ("tokens_per_second",), 0),
    ])
  return cells.table(
      [
          "method", "accuracy %", "SLOR", "test perplexity", "distinct-2",
          "base perplexity", "tokens/s",
      ],
      rows,
  )


def curves(
    file, found: Mapping[str, Sequence[Line]], x: str = "step"
) -> None:
  """Draws SLOR and accuracy against training (the paper's Figure 3).

  Args:
    file: PNG to write.
    found: from `lines.collect`; methods without training are horizontal lines.
    x: "step" or "flops".
  """
  figure = matplotlib.figure.Figure(figsize=(10, 4), dpi=120)
  axes = figure.subplots(1, 2)
  for i, (name, of_method) in enumerate(found.items()):
    colour = plots.COLOURS[i % len(plots.COLOURS)]
    for axis, path, scale in zip(axes, ("slor", "accuracy"), (1, 100)):
      if x not in of_method[0] or of_method[-1]["step"] == 0:
        value = scale * of_method[-1][path]["value"]
        axis.axhline(value, color=colour, linestyle=":", label=name)
        continue
      by_x = {}
      for line in of_method:
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
  found = lines.collect(folder)
  text = table(found)
  output.write_bytes(folder / "table.md", text.encode("utf-8"))
  curves(folder / "curves.png", found)
  curves(folder / "curves_flops.png", found, "flops")
  return text
