"""Figures are written, whole."""

import numpy as np

from ctrl_jax.evaluation import plots


def test_perplexity_matrix(tmp_path):
  file = tmp_path / "new" / "matrix.png"
  plots.perplexity_matrix(
      file, np.array([[3., 150.0], [4, 1234567]]), ["$one", "two$"]
  )
  assert file.read_bytes().startswith(b"\x89PNG")
  assert [p.name for p in file.parent.iterdir()] == ["matrix.png"]


def test_perplexity_matrix_without_any_difference(tmp_path):
  plots.perplexity_matrix(tmp_path / "m.png", np.ones((2, 2)), ["a", "b"])
  assert (tmp_path / "m.png").stat().st_size > 1000


def test_confusion_matrix(tmp_path):
  plots.confusion_matrix(
      tmp_path / "c.png", np.array([[1, 0], [.3, .7], [0, 1.]]),
      ["a", "b", "(none)"], ["a", "b"],
  )
  assert (tmp_path / "c.png").stat().st_size > 1000
