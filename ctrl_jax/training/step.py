"""One update, as a pure function of (state, batch)."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from ctrl_jax.training import optimizer, sharding, trainable
from ctrl_jax.training import weights as weights_lib

# A tree with `params` (what any phase trains), `opt_state` and three int32
# scalars: `step` counts batches seen, `skipped` updates left out because a
# gradient was not finite, `skipped_in_row` the last of them without a good one
# between. Leaves that never train, if there are any, are in `frozen`; the two
# trees lack the other's leaves. Where `params` are split, what their matrices
# lack is in `low_bits`.
State = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class TrainStep:
  """Builds the initial state, and applies updates to it.

  Attributes:
    task: has `init(key)`, `loss(params, batch, dropout_key)` and `phases`, a
      tuple of `trainable.Phase`. With a true `loss_takes_step`, its loss gets
      the number of updates before this one, too, as `step=`. With a true
      `loss_takes_sums` and micro-batches, a first pass over these adds up what
      the task's `sums(params, batch, dropout_key)` returns, and its loss gets
      it as `sums=`: what depends on the whole batch.
    optimizer: an optax transformation.
    seed: of the initial parameters and of dropout.
    accumulate: micro-batches an update; divides the batch.
    prng: JAX's name of the generator for dropout.
    clip_norm: bound on the global norm of what trains; 0 is off.
    weights: how what trains is stored, see `weights.TRAINED`.
    frozen_weights: how what does not is, see `weights.FROZEN`.
  """

  task: Any
  optimizer: optax.GradientTransformation
  seed: int = 0
  accumulate: int = 1
  prng: str = "threefry2x32"
  clip_norm: float = 0.0
  weights: str = "float32"
  frozen_weights: str = "float32"

  def init_boxed(self) -> State:
    """Initial state whose leaves carry their logical axes.

    threefry on every backend, so that a seed names the same model everywhere.
    """
    params = self.task.init(jax.random.key(self.seed, impl="threefry2x32"))
    masks, groups = self._masks(params)
    trains = jax.tree.map(lambda *m: any(m), *masks)
    frozen = trainable.select(params, trainable.inverse(trains))
    if self.frozen_weights == "bfloat16":
      frozen = weights_lib.half(frozen)
    params = trainable.select(params, trains)
    states = tuple(
        sharding.box_like(self.optimizer.init(nn.unbox(part)), part)
        for part in (trainable.select(params, g) for g in groups)
    )
    state = self._stored(params) | {
        "opt_state": states[0] if len(states) == 1 else states,
        # Three arrays, not one three times: each is donated.
        "step": jnp.zeros((), jnp.int32),
        "skipped": jnp.zeros((), jnp.int32),
        "skipped_in_row": jnp.zeros((), jnp.int32),
    }
    return state | {"frozen": frozen} if frozen else state

  def init(self) -> State:
    """Initial state without boxes."""
    return nn.unbox(self.init_boxed())

  def phase(self, step: int) -> int:
    """Returns the place in `task.phases` of the update after `step` ones."""
    for place, phase in enumerate(self.task.phases):
      if phase.until_step is None or step < phase.until_step:
        return place
    return len(self.task.phases) - 1

  def __call__(
      self, state: State, batch: dict[str, jax.Array], phase: int = 0
  ) -> tuple[State, dict[str, jax.Array]]:
    """One update: the same for any `accumulate` (random numbers apart).

    Args:
      state: the current state.
      batch: arrays [B, ...]; B a multiple of `accumulate`.
      phase: `phase(step)`; each phase is a program of its own.

    Returns:
      The new state, and `loss` (mean over target tokens), `tokens` (their
      number), `grad_norm` (before clipping), `skipped`, `skipped_in_row`, and
      of what the task's rows hold besides the mean over sequences.
    """
    # A function of (seed, step): resuming needs no generator's state.
    key = jax.random.key(self.seed, impl=self.prng)
    key = jax.random.fold_in(key, state["step"])
    params = all_params(state)
    masks, groups = self._masks(params)
    total, weight, gradients, more = self._gradients(
        params, masks[phase], batch, key, state["step"]
    )
    weight = jnp.maximum(weight, 1.0)
    gradients = jax.tree.map(lambda g: g / weight, gradients)
    norm = optax.global_norm(gradients)
    if self.clip_norm:
      clip = optax.clip_by_global_norm(self.clip_norm)
      gradients, _ = clip.update(gradients, clip.init(None))
    new = self._apply(state, gradients, groups)
    # One infinite gradient in Adagrad's sum would end a weight for good.
    good = jnp.isfinite(norm) & jnp.isfinite(total)
    keep = lambda new, old: jax.tree.map(
        lambda a, b: jnp.where(good, a, b), new, old
    )
    bad = 1 - good.astype(jnp.int32)
    state = state | {k: keep(x, state[k]) for k, x in new.items()} | {
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
    return state, metrics | _means(more)

  def _masks(self, params):
    """What trains in each phase, and the groups of leaves; see `trainable`."""
    masks = [trainable.mask(params, p.rule) for p in self.task.phases]
    return masks, trainable.groups(masks)

  def _apply(self, state, gradients, groups):
    """Updates the groups that train; the others and their state stand still."""
    params, states = state["params"], state["opt_state"]
    if "low_bits" in state:
      params = weights_lib.join(params, state["low_bits"])
    if len(groups) == 1:
      states = (states,)
    parts, new_states = [], []
    for group, opt_state in zip(groups, states, strict=True):
      part = trainable.select(params, group)
      wanted = trainable.select(gradients, group)
      if wanted:
        updates, opt_state = self.optimizer.update(wanted, opt_state, part)
        part = optax.apply_updates(part, updates)
      parts.append(part)
      new_states.append(opt_state)
    opt_state = new_states[0] if len(groups) == 1 else tuple(new_states)
    return self._stored(trainable.merge(*parts)) | {"opt_state": opt_state}

  def _stored(self, params):
    """The entries of a state that hold float32 parameters."""
    if self.weights == "float32":
      return {"params": params}
    return dict(zip(("params", "low_bits"), weights_lib.split(params)))

  def _gradients(self, params, active, batch, key, step):
    """Sums over the whole batch: loss, weights, gradients of `active`, rows."""
    trained = trainable.select(params, active)
    rest = trainable.select(params, trainable.inverse(active))
    options = {}
    if getattr(self.task, "loss_takes_step", False):
      options["step"] = step

    def loss(trained, batch, key):
      params = trainable.merge(trained, rest)
      return self.task.loss(params, batch, key, **options)

    def one(batch, key):
      grad = jax.value_and_grad(loss, has_aux=True)
      (total, rows), gradients = grad(trained, batch, key)
      return total, rows["weight"].sum(), gradients, _sums(rows)

    if self.accumulate == 1:
      return one(batch, key)
    # Strided, so that every device works in every micro-batch.
    cut = lambda x: x.reshape(-1, self.accumulate, *x.shape[1:]).swapaxes(0, 1)
    parts = jax.tree.map(cut, batch), jax.random.split(key, self.accumulate)
    if getattr(self.task, "loss_takes_sums", False):
      options["sums"] = _add_up(
          lambda batch, key: self.task.sums(params, batch, key), parts
      )
    return _add_up(one, parts)


def _add_up(function, parts):
  """Sums what a function of micro-batches and keys returns, in float32.

  Gradients may be bfloat16; their sums are not.
  """
  zeros = jax.tree.map(
      lambda x: jnp.zeros(x.shape, jnp.float32),
      jax.eval_shape(function, *jax.tree.map(lambda x: x[0], parts)),
  )

  def body(sums, inputs):
    return jax.tree.map(jnp.add, sums, function(*inputs)), None

  return jax.lax.scan(body, zeros, parts)[0]


def _sums(rows):
  """Sums of what a task's rows hold besides nll and weight, if anything."""
  more = {k: v.sum() for k, v in rows.items() if k not in ("nll", "weight")}
  if more:
    more["sequences"] = (rows["weight"] > 0).sum().astype(jnp.float32)
  return more


def _means(sums):
  count = jnp.maximum(sums.pop("sequences", 1.0), 1.0)
  return {name: total / count for name, total in sums.items()}


def all_params(state: State) -> Any:
  """Returns the whole parameter tree of a state, frozen leaves included."""
  if "frozen" not in state:
    return state["params"]
  return trainable.merge(state["params"], state["frozen"])


def without_frozen(state: State) -> State:
  """Returns what a checkpoint holds: frozen leaves lie elsewhere already."""
  return {k: v for k, v in state.items() if k != "frozen"}


def from_config(config: Any, task: Any) -> TrainStep:
  """Returns the step that training a configuration runs."""
  c = config.train
  rule = optimizer.OptimizerConfig(**config.optimizer)
  weights_lib.check(c.weights, c.frozen_weights)
  return TrainStep(
      task, optimizer.make(rule), c.seed, c.accumulate, c.prng, rule.clip_norm,
      c.weights, c.frozen_weights,
  )
