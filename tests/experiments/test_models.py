"""Pieces of a training, of models that are trained nowhere."""

import ml_collections
import pytest

from ctrl_jax.experiments import config_files, models


@pytest.fixture
def trained(monkeypatch, tmp_path):
  """(workdir, step) of each piece, as it is trained."""
  found = []

  def train(config, workdir):
    found.append((workdir, config.train.steps))
    assert config.train.max_minutes == 0 and config.name == "c.py:x"
    (tmp_path / workdir / "checkpoints" / str(config.train.steps)).mkdir(
        parents=True
    )

  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(config_files, "load", lambda name: (
      ml_collections.ConfigDict(
          dict(name=name, train=dict(steps=1200, max_minutes=9.0))
      )
  ))
  monkeypatch.setattr(models.prepare, "prepare", lambda c: None)
  monkeypatch.setattr(models.train, "train", train)
  return found


GIVEN = tuple(dict(workdir=name, config="c.py:x") for name in ("b", "a"))


def test_in_pieces_and_in_order(trained):
  assert models.make(GIVEN, lambda: False)
  assert trained == [
      (name, step) for name in ("b", "a") for step in (500, 1000, 1200)
  ]
  assert models.make(GIVEN, lambda: True) and len(trained) == 6


def test_time_is_up_between_two_pieces(trained, tmp_path):
  (tmp_path / "b" / "checkpoints" / "730").mkdir(parents=True)
  assert not models.make(GIVEN, lambda: len(trained) == 1)
  assert trained == [("b", 1000)]
  assert models.make(GIVEN, lambda: False)
  assert trained[1:3] == [("b", 1200), ("a", 500)]
