"""A batch and a few updates, for tests of tasks beside a frozen model."""

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax import config as config_lib
from ctrl_jax.training import optimizer
from ctrl_jax.training import step as step_lib


def batch(seed=0, rows=8):
  """Tokens below 31, nine a row, some of them targets; and attributes."""
  rng = np.random.default_rng(seed)
  integers = lambda *shape: jnp.asarray(rng.integers(0, 31, shape), jnp.int32)
  return {
      "tokens": integers(rows, 9),
      "weights": jnp.asarray(rng.integers(0, 2, (rows, 9)), jnp.uint8),
      "attribute": integers(rows, 3),
      "attribute_length": jnp.asarray(rng.integers(0, 4, rows), jnp.int32),
  }


def three_updates(task):
  """Returns the initial state, one after three updates, and their losses."""
  rule = optimizer.make(optimizer.OptimizerConfig("adam", 0.03, 0))
  step = step_lib.TrainStep(task, rule, clip_norm=1.0)
  first = state = jax.jit(step.init)()
  update = jax.jit(step)
  losses = []
  for _ in range(3):
    state, metrics = update(state, batch())
    losses.append(float(metrics["loss"]))
  return first, state, losses


def cvae_configuration(**fields):
  """The default one for a CVAE, fields of its section and of train changed."""
  c = config_lib.default()
  c.task.name = "cvae"
  c.train.sample_tokens = 0
  c.cvae.update({k: v for k, v in fields.items() if k in c.cvae})
  c.train.update({k: v for k, v in fields.items() if k in c.train})
  return c
