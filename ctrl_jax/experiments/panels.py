"""SLOR and accuracy side by side, against anything."""

from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np

from ctrl_jax.evaluation import plots
from ctrl_jax.experiments.lines import Line

# Lines of one place, a seed each; the place is None for what has none, which
# is a horizontal line.
Series = Mapping[float | None, Sequence[Line]]


def draw(
    file, found: Mapping[str, Series], label: str, *, log: bool = False
) -> None:
  """Draws means over seeds, their range shaded.

  Args:
    file: PNG to write.
    found: name -> its lines by place on the horizontal axis.
    label: of that axis.
    log: whether it is logarithmic.
  """
  figure = matplotlib.figure.Figure(figsize=(10, 4), dpi=120)
  axes = figure.subplots(1, 2)
  panels = [("slor", 1, "SLOR"), ("accuracy", 100, "accuracy, %")]
  for axis, (field, scale, name) in zip(axes, panels):
    for i, (series, lines) in enumerate(found.items()):
      values = {
          place: [scale * line[field]["value"] for line in of_place]
          for place, of_place in lines.items()
      }
      _line(axis, values, series, plots.COLOURS[i % len(plots.COLOURS)])
    axis.set_xlabel(label)
    axis.set_ylabel(name)
    axis.grid(alpha=0.3)
    if log:
      axis.set_xscale("log")
  axes[1].legend(fontsize=7)
  figure.tight_layout()
  plots.save(figure, file)


def _line(axis, values, name, colour) -> None:
  if None in values:
    mean = np.mean(values[None])
    axis.axhline(mean, color=colour, linestyle=":", label=name)
    return
  places = sorted(values)
  means = [np.mean(values[p]) for p in places]
  axis.plot(places, means, color=colour, marker="o", ms=3, label=name)
  if max(map(len, values.values())) > 1:
    axis.fill_between(
        places, [min(values[p]) for p in places],
        [max(values[p]) for p in places], color=colour, alpha=0.2,
    )
