"""What one start of a training does between its updates, and when it ends."""

import logging

import jax
import numpy as np
import pytest
from loop_configs import changed

from ctrl_jax import errors, prepare, train
from ctrl_jax.training import checkpoint


def test_stops_after_bad_steps_in_a_row(tmp_path, tiny_config, monkeypatch):
  from ctrl_jax.data import batches

  real = batches.TrainBatches.iterate

  def poisoned(self, start_step=0, prefetch=4):
    for i, batch in enumerate(real(self, start_step, prefetch)):
      if i >= 3:
        infinite = np.full(batch["weights"].shape, np.inf, np.float32)
        batch = {**batch, "weights": infinite}
      else:
        batch = {**batch, "weights": batch["weights"].astype(np.float32)}
      yield batch

  def float_batch(self, step):
    batch = self._batches[step]
    return {**batch, "weights": batch["weights"].astype(np.float32)}

  monkeypatch.setattr(batches.TrainBatches, "iterate", poisoned)
  monkeypatch.setattr(batches.TrainBatches, "batch", float_batch)
  c = changed(tiny_config, steps=50, stop_after_bad_steps=3)
  with pytest.raises(errors.UserError, match="not finite 3 steps in a row"):
    train.train(c, str(tmp_path / "r"))
  params = checkpoint.load_params(tmp_path / "r")
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(params))


def test_time_limit_counts_earlier_starts(
    tmp_path, tiny_config, caplog, monkeypatch
):
  monkeypatch.setattr(logging.getLogger("ctrl_jax"), "propagate", True)
  c = changed(tiny_config, steps=10**6, max_minutes=0.1, eval_every=10**6,
              checkpoint_every=10**6)
  with caplog.at_level(logging.INFO, logger="ctrl_jax"):
    first = train.train(c, str(tmp_path / "r"))
  assert "1000000 steps of 8 sequences, or 0.1 minutes." in caplog.text
  assert 0 < first["step"] < 10**6
  again = train.train(c, str(tmp_path / "r"))
  assert again["step"] == first["step"]


def test_without_validation_data(tmp_path, tiny_config, caplog, monkeypatch):
  """No NaN anywhere, and one line that says why."""
  monkeypatch.setattr(logging.getLogger("ctrl_jax"), "propagate", True)
  c = changed(tiny_config, steps=2, checkpoint_every=2, eval_every=1)
  with c.unlocked():
    c.data.folder = str(tmp_path / "data")
    c.data.validation_fraction = 0.0
  prepare.prepare(c)
  with caplog.at_level(logging.WARNING, logger="ctrl_jax"):
    result = train.train(c, str(tmp_path / "run"))
  assert result["perplexity"] is None and result["step"] == 2
  assert "no validation sequences" in caplog.text
  assert "NaN" not in (tmp_path / "run" / "metrics.jsonl").read_text()


def test_time_that_is_used_up_is_said(
    tmp_path, tiny_config, caplog, monkeypatch
):
  monkeypatch.setattr(logging.getLogger("ctrl_jax"), "propagate", True)
  workdir = str(tmp_path / "run")
  train.train(changed(tiny_config, steps=2), workdir)
  with caplog.at_level(logging.WARNING, logger="ctrl_jax"):
    result = train.train(changed(tiny_config, max_minutes=1e-6), workdir)
  assert result["step"] == 2
  assert "max_minutes=1e-06 is used up" in caplog.text
