"""SLOR and accuracy side by side, against anything."""

from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np

from ctrl_jax.evaluation import plots
from ctrl_jax.experiments.lines import Line

# Lines of one place, a seed each; the place is None for what has none, which
# is a horizontal line.
Series = Mapping[float | None, Sequence[Line]]
_STYLES = ("-", "--", ":")  # The next one where colours begin again.


def draw(
    file, found: Mapping[str, Series], label: str, *, log: bool = False
) -> None:
  """Draws means over seeds, their intervals (95 %, over texts) shaded.

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
      means = {
          place: [
              scale * np.mean([line[field][bound] for line in of_place])
              for bound in ("value", "low", "high")
          ]
          for place, of_place in lines.items()
      }
      turn, colour = divmod(i, len(plots.COLOURS))
      _line(axis, means, series, plots.COLOURS[colour], _STYLES[turn % 3])
    axis.set_xlabel(label)
    axis.set_ylabel(name)
    axis.grid(alpha=0.3)
    if log:
      axis.set_xscale("log")
  axes[1].legend(fontsize=7)
  figure.tight_layout()
  plots.save(figure, file)


def _line(axis, means, name, colour, style) -> None:
  if None in means:
    mean, low, high = means[None]
    axis.axhline(mean, color=colour, linestyle=style, lw=0.8, label=name)
    axis.axhspan(low, high, color=colour, alpha=0.08, lw=0)
    return
  places = sorted(means)
  mean, low, high = zip(*(means[p] for p in places))
  axis.plot(
      places, mean, color=colour, linestyle=style, marker="o", ms=3, label=name
  )
  axis.fill_between(places, low, high, color=colour, alpha=0.12, lw=0)
