"""Figures as PNG files."""

import io
import pathlib
from collections.abc import Sequence

import matplotlib
import matplotlib.figure
import numpy as np

from ctrl_jax.evaluation import output

# Told apart in common forms of colour blindness (Okabe and Ito 2008).
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
)


def perplexity_matrix(
    file, perplexities: np.ndarray, codes: Sequence[str]
) -> None:
  """Draws the matrix: numbers are perplexities, colour compares in a column.

  Domains differ in how hard they are, so colour is the ratio to the domain's
  own code (the diagonal, white): orange where another code reads a domain
  worse, purple where it reads it better. Both colours differ in every common
  form of colour blindness.

  Args:
    file: PNG to write.
    perplexities: [num_codes, num_codes], as of `perplexity.matrix`.
    codes: names of rows and columns.
  """
  ratio = np.log2(perplexities / np.diag(perplexities))
  limit = max(np.abs(ratio).max(), 0.1)
  size = max(4.5, 0.55 * len(codes) + 2.5)
  figure = matplotlib.figure.Figure(figsize=(size + 1, size), dpi=120)
  axes = figure.subplots()
  image = axes.imshow(ratio, cmap="PuOr_r", vmin=-limit, vmax=limit)
  for i, row in enumerate(perplexities):
    for j, value in enumerate(row):
      axes.text(
          j, i, _short(value), ha="center", va="center", fontsize=7,
          weight="bold" if i == perplexities[:, j].argmin() else "normal",
          color="white" if abs(ratio[i, j]) > 0.7 * limit else "black",
      )
  _name_axes(axes, codes, codes)
  axes.set_xlabel("written in domain")
  axes.set_ylabel("read under control code")
  axes.set_title("Perplexity (bold: the domain's lowest)", fontsize=10)
  bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
  bar.set_label("log2 of the ratio to the own code", fontsize=8)
  figure.tight_layout()
  save(figure, file)


def confusion_matrix(
    file, shares: np.ndarray, rows: Sequence[str], columns: Sequence[str]
) -> None:
  """Draws shares in [0, 1]: generated under a row's code, judged a column's.

  Args:
    file: PNG to write.
    shares: [num_rows, num_columns].
    rows: names of rows.
    columns: names of columns.
  """
  size = max(4.5, 0.5 * len(columns) + 2.5)
  figure = matplotlib.figure.Figure(figsize=(size + 1, size), dpi=120)
  axes = figure.subplots()
  image = axes.imshow(shares, cmap="cividis", vmin=0, vmax=1)
  for i, row in enumerate(shares):
    for j, value in enumerate(row):
      if value >= 0.005:
        axes.text(
            j, i, f"{100 * value:.0f}", ha="center", va="center", fontsize=7,
            color="black" if value > 0.5 else "white",
        )
  _name_axes(axes, rows, columns)
  axes.set_xlabel("judged to be")
  axes.set_ylabel("generated under")
  axes.set_title("Share of samples, in percent", fontsize=10)
  figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
  figure.tight_layout()
  save(figure, file)


def _name_axes(axes, rows: Sequence[str], columns: Sequence[str]) -> None:
  # A pair of dollar signs would be read as mathematics.
  plain = dict(fontsize=8, parse_math=False)
  axes.set_xticks(
      range(len(columns)), columns, rotation=60, ha="right", **plain
  )
  axes.set_yticks(range(len(rows)), rows, **plain)


def _short(value: float) -> str:
  return f"{value:.1f}" if value < 100 else f"{value:.3g}"


def save(figure: matplotlib.figure.Figure, file) -> None:
  """Writes a figure as PNG, all of it or nothing.

  Args:
    figure: made without pyplot, so that it draws with Agg and needs no display.
    file: where to.
  """
  buffer = io.BytesIO()
  figure.savefig(buffer, format="png")
  output.write_bytes(pathlib.Path(file), buffer.getvalue())
