"""Six updates of the original's model in TensorFlow 1, and ours."""

import jax
import numpy as np
import pytest
import shared_data

from ctrl_jax.interop import assemble, layouts
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.training import optimizer, step

CONFIG = TransformerConfig(
    vocab_size=97, d_model=16, d_ff=32, num_layers=2, num_heads=4,
    max_length=12, dropout=0.0,
)


@pytest.fixture(scope="module")
def original():
  file = shared_data.path("expected/tf_training/adagrad_warmup_clip.npz")
  return dict(np.load(file))


def tree(original, prefix):
  found = {
      name.removeprefix(prefix): x for name, x in original.items()
      if name.startswith(prefix)
  }
  return assemble.assemble(
      CONFIG, layouts.tensorflow_ctrl(2),
      {name: x.shape for name, x in found.items()}, found.__getitem__, prefix,
  )


def test_losses_weights_and_accumulators(original):
  # The first update's rate is 0, as ours.
  np.testing.assert_allclose(
      original["learning_rates"], [0, 0.0125, 0.025, 0.0375, 0.05, 0.05]
  )
  rule = optimizer.make(
      optimizer.OptimizerConfig(learning_rate=0.05, warmup_steps=4)
  )
  train_step = step.TrainStep(
      LanguageModelTask(CONFIG), rule, clip_norm=0.25
  )
  update = jax.jit(train_step)
  params = tree(original, "before|")
  state = train_step.init() | {
      "params": params, "opt_state": rule.init(params)
  }
  for ids, loss, norm in zip(
      original["token_ids"], original["losses"], original["gradient_norms"]
  ):
    batch = {"tokens": ids, "weights": np.ones(ids.shape, np.float32)}
    state, metrics = update(state, batch)
    np.testing.assert_allclose(metrics["loss"], loss, atol=1e-5)
    np.testing.assert_allclose(metrics["grad_norm"], norm, rtol=1e-5)
  for found, expected in (
      (state["params"], tree(original, "after|")),
      (_accumulators(state["opt_state"]), tree(original, "accumulator|")),
  ):
    for path, x in assemble.flat(expected).items():
      np.testing.assert_allclose(
          assemble.flat(found)[path], x, atol=1e-5, err_msg=path
      )


def _accumulators(opt_state):
  """The one state that is shaped like the parameters."""
  states = jax.tree.leaves(
      opt_state, is_leaf=lambda s: hasattr(s, "sum_of_squares")
  )
  (found,) = [s for s in states if hasattr(s, "sum_of_squares")]
  return found.sum_of_squares
