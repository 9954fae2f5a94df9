"""The original's checkpoints: its own logits, and every tensor in its place."""

import jax
import numpy as np
import pytest

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


def test_accumulators_and_step(folder):
  found = tensorflow_ctrl.read(folder, num_heads=4, with_accumulators=True)
  assert found.step == 1234
  assert jax.tree.map(np.shape, found.params) == (
      jax.tree.map(np.shape, found.accumulators)
  )
  assert min(x.min() for x in jax.tree.leaves(found.accumulators)) > 0
  accumulator = tensorflow_checkpoint.Checkpoint(folder).read("b/Adagrad")
  np.testing.assert_array_equal(found.accumulators["head"]["bias"], accumulator)
  assert tensorflow_ctrl.read(folder, num_heads=4).accumulators is None


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
    tensorflow_ctrl.read(folder, num_heads=4)
