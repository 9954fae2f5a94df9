"""Figures of a latent: t-SNE of means, KL by dimension, training.

The Transformer CVAE's Figures 4 and 5, and what tells a collapse.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np

from ctrl_jax import errors
from ctrl_jax.evaluation import plots

# Of t-SNE, as the CVAE's authors set it (`tsne_plot.py`).
_PERPLEXITY = 40
# What a training's figure shows, of its metrics.
_CURVES = (("kl", "KL, nats a sequence"), ("beta", "beta"),
           ("reconstruction", "reconstruction, nats a sequence"))


def t_sne_points(means: np.ndarray, seed: int = 0) -> np.ndarray:
  """Returns means in two dimensions, float [N, 2] (Maaten and Hinton 2008).

  Args:
    means: [N, Z], N at least 4.
    seed: the same one gives the same points.

  Raises:
    errors.UserError: fewer than 4.
  """
  from sklearn import manifold

  if len(means) < 4:
    raise errors.UserError(
        f"t-SNE of {len(means)} texts shows nothing: encode more (--texts)."
    )
  return manifold.TSNE(
      perplexity=min(_PERPLEXITY, (len(means) - 1) / 3), init="pca",
      random_state=seed,
  ).fit_transform(np.asarray(means, np.float32))


def t_sne(
    file,
    means: Mapping[str, np.ndarray],
    labels: Sequence[str] = (),
    seed: int = 0,
) -> None:
  """Draws t-SNE of several means of the same texts side by side.

  Nothing is left out. (The authors drop points two standard deviations away.)

  Args:
    file: PNG to write.
    means: title -> [N, Z].
    labels: of the texts, each a colour; () for one colour.
    seed: see `t_sne_points`.
  """
  figure = matplotlib.figure.Figure(figsize=(5 * len(means), 4.6), dpi=120)
  places = {
      name: np.array([label == name for label in labels], bool)
      for name in sorted(set(labels))
  }
  for axis, (title, rows) in zip(
      figure.subplots(1, len(means), squeeze=False)[0], means.items()
  ):
    points = t_sne_points(rows, seed)
    for i, (name, place) in enumerate(
        places.items() or [("", np.ones(len(rows), bool))]
    ):
      axis.scatter(
          *points[place].T, s=10, alpha=0.6, label=name, linewidths=0,
          color=plots.COLOURS[i % len(plots.COLOURS)],
          marker="os^D"[i // len(plots.COLOURS) % 4],
      )
    axis.set_title(f"{title} means, t-SNE", fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])
  if labels:
    for text in axis.legend(fontsize=8, markerscale=2).get_texts():
      text.set_parse_math(False)
  figure.tight_layout()
  plots.save(figure, file)


def kl_by_dimension(file, kl: np.ndarray) -> None:
  """Draws the mean KL of each dimension, the largest first.

  Args:
    file: PNG to write.
    kl: [N, Z], nats.
  """
  means = np.sort(np.asarray(kl, np.float64).mean(0))[::-1]
  figure = matplotlib.figure.Figure(figsize=(6, 3.2), dpi=120)
  axis = figure.subplots()
  axis.bar(np.arange(len(means)), means, width=1.0, color=plots.COLOURS[0])
  axis.set_xlabel("dimension of z, by its KL")
  axis.set_ylabel("nats")
  axis.set_title(f"KL by dimension; {means.sum():.1f} nats in all", fontsize=10)
  figure.tight_layout()
  plots.save(figure, file)


def read_metrics(file) -> dict[str, tuple[list[int], list[float]]]:
  """Returns metric -> (steps, values) of a run's `metrics.jsonl`.

  What a later start of the run measured again counts.

  Raises:
    errors.UserError: the file is damaged.
  """
  found = {}
  with open(file, encoding="utf-8") as lines:
    for number, text in enumerate(lines, 1):
      try:
        line = json.loads(text)
        step = int(line.pop("step"))
      except (ValueError, KeyError, AttributeError, TypeError) as e:
        raise errors.UserError(
            f"{str(file)!r}, line {number}, is damaged: delete the line."
        ) from e
      for name, value in line.items():
        found.setdefault(name, {})[step] = value
  return {
      name: (sorted(values), [values[s] for s in sorted(values)])
      for name, values in found.items()
  }


def training(file, metrics_file) -> None:
  """Draws KL, beta and reconstruction against the step, below each other.

  Args:
    file: PNG to write.
    metrics_file: a CVAE's `metrics.jsonl`.

  Raises:
    errors.UserError: damaged metrics, or another task's.
  """
  found = read_metrics(metrics_file)
  if "train/kl" not in found:
    raise errors.UserError(
        f"{str(pathlib.Path(metrics_file))!r} has no KL: it is no CVAE's."
    )
  figure = matplotlib.figure.Figure(figsize=(7, 6), dpi=120)
  for axis, (name, label) in zip(
      figure.subplots(len(_CURVES), 1, sharex=True), _CURVES
  ):
    for i, split in enumerate(("train", "validation")):
      if f"{split}/{name}" in found:
        steps, values = found[f"{split}/{name}"]
        axis.plot(
            steps, values, color=plots.COLOURS[i], label=split,
            linewidth=1 + i,
        )
    axis.set_ylabel(label, fontsize=8)
    axis.grid(alpha=0.3)
    if axis.lines:
      axis.legend(fontsize=7)
  axis.set_xlabel("training steps")
  figure.tight_layout()
  plots.save(figure, file)
