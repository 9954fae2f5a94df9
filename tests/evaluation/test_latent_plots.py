"""Figures are written whole, and show what is there."""

import json

import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import latent_plots


def is_png(file):
  return file.read_bytes().startswith(b"\x89PNG") and file.stat().st_size > 5000


def test_t_sne_is_seeded_and_parts_what_is_apart():
  rng = np.random.default_rng(0)
  means = np.repeat(np.eye(3, 8) * 20, 10, 0) + rng.normal(size=(30, 8))
  points = latent_plots.t_sne_points(means)
  np.random.seed(5)  # Which nothing looks at.
  np.testing.assert_array_equal(points, latent_plots.t_sne_points(means))
  distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
  np.fill_diagonal(distance, np.inf)
  nearest = distance.argmin(1)
  assert (nearest // 10 == np.arange(30) // 10).all()
  with pytest.raises(errors.UserError, match="3 texts"):
    latent_plots.t_sne_points(means[:3])


def test_t_sne_is_drawn_with_and_without_labels(tmp_path):
  means = np.random.default_rng(0).normal(size=(20, 4))
  file = tmp_path / "a.png"
  labels = ["$x", "y$"] * 10
  latent_plots.t_sne(file, dict(posterior=means, prior=means), labels)
  assert is_png(file)
  latent_plots.t_sne(file, dict(posterior=means))
  assert is_png(file)


def test_kl_by_dimension(tmp_path):
  latent_plots.kl_by_dimension(tmp_path / "kl.png", np.eye(5))
  assert is_png(tmp_path / "kl.png")


def test_metrics_of_a_run_that_was_started_again(tmp_path):
  file = tmp_path / "metrics.jsonl"
  lines = [
      {"step": 1, "train/kl": 3.0, "train/beta": 0.0},
      {"step": 2, "train/kl": 9.0},
      {"step": 2, "train/kl": 2.0, "validation/kl": 1.0},
  ]
  file.write_text("".join(json.dumps(line) + "\n" for line in lines))
  assert latent_plots.read_metrics(file) == {
      "train/kl": ([1, 2], [3.0, 2.0]), "train/beta": ([1], [0.0]),
      "validation/kl": ([2], [1.0]),
  }
  latent_plots.training(tmp_path / "t.png", file)
  assert is_png(tmp_path / "t.png")


def test_bad_metrics(tmp_path):
  file = tmp_path / "metrics.jsonl"
  file.write_text('{"step": 1, "train/loss": 1.0}\n')
  with pytest.raises(errors.UserError, match="no KL"):
    latent_plots.training(tmp_path / "t.png", file)
  file.write_text('{"step": 1}\n{"st')
  with pytest.raises(errors.UserError, match="line 2"):
    latent_plots.training(tmp_path / "t.png", file)
  assert not (tmp_path / "t.png").exists()
