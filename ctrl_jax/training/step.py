"""One update, as a pure function of (state, batch)."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

# A tree with `params`, `opt_state` and three int32 scalars: `step` counts
# batches seen, `skipped` updates left out because a gradient was not finite,
# `skipped_in_row` the last of them without a good one between.
State = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class TrainStep:
  """Builds the initial state, and applies updates to it.

  Attributes:
    task: has `init(key)` and `loss(params, batch, dropout_key)`.
    optimizer: an optax transformation, clipping included.
    seed: of the initial parameters and of dropout.
    accumulate: micro-batches an update; divides the batch.
    prng: JAX's name of the generator for dropout.
  """

  task: Any
  optimizer: optax.GradientTransformation
  seed: int = 0
  accumulate: int = 1
  prng: str = "threefry2x32"

  def init_boxed(self) -> State:
    """Initial state whose leaves carry their logical axes.

    threefry on every backend, so that a seed names the same model everywhere.
    """
    params = self.task.init(jax.random.key(self.seed, impl="threefry2x32"))
    return {
        "params": params,
        "opt_state": self.optimizer.init(params),
        # Three arrays, not one three times: each is donated.
        "step": jnp.zeros((), jnp.int32),
        "skipped": jnp.zeros((), jnp.int32),
        "skipped_in_row": jnp.zeros((), jnp.int32),
    }

  def init(self) -> State:
    """Initial state without boxes."""
    return nn.unbox(self.init_boxed())

  def __call__(
      self, state: State, batch: dict[str, jax.Array]
  ) -> tuple[State, dict[str, jax.Array]]:
    """One update: the same for any `accumulate` (dropout apart).

    Args:
      state: the current state.
      batch: arrays [B, ...]; B a multiple of `accumulate`.

    Returns:
      The new state, and `loss` (mean over target tokens), `tokens` (their
      number), `grad_norm` (before clipping), `skipped`, `skipped_in_row`.
    """
    # A function of (seed, step): resuming needs no generator's state.
    key = jax.random.key(self.seed, impl=self.prng)
    key = jax.random.fold_in(key, state["step"])
    params = state["params"]
    total, weight, gradients = self._gradients(params, batch, key)
    weight = jnp.maximum(weight, 1.0)
    gradients = jax.tree.map(lambda g: g / weight, gradients)
    norm = optax.global_norm(gradients)
    updates, opt_state = self.optimizer.update(
        gradients, state["opt_state"], params
    )
    new_params = optax.apply_updates(params, updates)
    # One infinite gradient in Adagrad's sum would end a weight for good.
    good = jnp.isfinite(norm) & jnp.isfinite(total)
    keep = lambda new, old: jax.tree.map(
        lambda a, b: jnp.where(good, a, b), new, old
    )
    bad = 1 - good.astype(jnp.int32)
    state = {
        "params": keep(new_params, params),
        "opt_state": keep(opt_state, state["opt_state"]),
        "step": state["step"] + 1,
        "skipped": state["skipped"] + bad,
        "skipped_in_row": (state["skipped_in_row"] + bad) * bad,
    }
    metrics = {
        "loss": total / weight,
        "tokens": weight,
        "grad_norm": norm,
        "skipped": state["skipped"],
        "skipped_in_row": state["skipped_in_row"],
    }
    return state, metrics

  def _gradients(self, params, batch, key):
    """Sums over the whole batch: loss, weights, gradients."""

    def one(batch, key):
      grad = jax.value_and_grad(self.task.loss, has_aux=True)
      (total, rows), gradients = grad(params, batch, key)
      return total, rows["weight"].sum(), gradients

    if self.accumulate == 1:
      return one(batch, key)

    def body(sums, inputs):
      return jax.tree.map(jnp.add, sums, one(*inputs)), None

    # Strided, so that every device works in every micro-batch.
    cut = lambda x: x.reshape(-1, self.accumulate, *x.shape[1:]).swapaxes(0, 1)
    micro = jax.tree.map(cut, batch)
    keys = jax.random.split(key, self.accumulate)
    zeros = jax.tree.map(
        lambda x: jnp.zeros(x.shape, x.dtype),
        jax.eval_shape(one, jax.tree.map(lambda x: x[0], micro), keys[0]),
    )
    return jax.lax.scan(body, zeros, (micro, keys))[0]
