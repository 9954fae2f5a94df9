"""The original's checkpoints: its own logits, and every tensor in its place."""

import dataclasses

import interop_fakes
import jax
import numpy as np
import pytest
import tensorflow_fakes

import ctrl_jax
from ctrl_jax import errors
from ctrl_jax.interop import layouts, tensorflow_checkpoint, tensorflow_ctrl


def test_logits_are_the_originals(folder):
  expected = np.load(folder / "expected.npz")
  model = ctrl_jax.load(folder, num_heads=4)
  assert model.config.num_layers == 2
  np.testing.assert_allclose(
      model.logits(expected["ids"]), expected["logits"], atol=1e-4
  )


def test_accumulators(folder):
  open_checkpoint = tensorflow_ctrl.open_checkpoint
  found = open_checkpoint(folder, num_heads=4, with_accumulators=True)
  assert jax.tree.map(np.shape, found.params.tree()) == (
      jax.tree.map(np.shape, found.accumulators)
  )
  assert min(x.min() for x in jax.tree.leaves(found.accumulators)) > 0
  accumulator = tensorflow_checkpoint.Checkpoint(folder).read("b/Adagrad")
  np.testing.assert_array_equal(found.accumulators["head"]["bias"], accumulator)
  assert open_checkpoint(folder, num_heads=4).accumulators is None


@pytest.mark.parametrize("num_layers", [1, 11])
def test_any_number_of_layers(tmp_path, num_layers):
  """Ten and more: names that sort otherwise than they count."""
  config = dataclasses.replace(interop_fakes.CTRL, num_layers=num_layers)
  params = interop_fakes.random_params(config)
  tensorflow_fakes.write_ctrl(tmp_path / "model.ckpt-7", config, params)
  found = ctrl_jax.load(tmp_path, num_heads=2, max_length=6)
  assert found.config == config
  interop_fakes.assert_same(found.params, params)


def test_heads_must_be_given(folder):
  with pytest.raises(errors.UserError, match="give num_heads"):
    ctrl_jax.load(folder)


def test_tensors_that_are_not_there(monkeypatch, folder):
  real = layouts.tensorflow_ctrl
  monkeypatch.setattr(
      layouts, "tensorflow_ctrl",
      lambda n: [t._replace(name=t.name.replace("beta", "gone"))
                 for t in real(n)],
  )
  with pytest.raises(errors.UserError, match="Missing: .*gone.* Not expected"):
    tensorflow_ctrl.open_checkpoint(folder, num_heads=4)
