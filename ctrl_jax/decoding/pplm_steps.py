"""The compiled part of PPLM (Dathathri et al. 2020, arXiv 1912.02164).

At each token the cached keys and values H of all tokens but the last are moved
so that what follows has the attribute, for a few iterations:

  delta <- delta - stepsize * g / |g|^gamma     g = gradient of the loss

  loss = attribute + kl_scale * KL(p of H + delta, p of H)

The attribute's loss is -log p(bag), the probability of a bag of words to come
next, or the cross-entropy of a linear head on the mean hidden state, a
discriminator. A gradient has a norm for each layer (of its keys and values
together). The next token comes from p(H + delta)^gm_scale * p(H)^(1 - gm_scale)
normalised, and the moved cache is carried on. Each row has losses and norms of
its own: a batch gives what its rows give alone.

Pure functions of `steps.Session`: the model's parameters get no gradient and do
not change. After the original (uber-research/PPLM, run_pplm.py), but for two
of its mistakes: its window mask moves the oldest positions instead of the most
recent ones, and its look-ahead reads the same soft token again and again.

Letters as in `models/transformer.py`; S is the cache's length, C classes.
"""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ctrl_jax import errors
from ctrl_jax.decoding import rules as rules_lib
from ctrl_jax.decoding import steps
from ctrl_jax.models import stack, transformer
from ctrl_jax.models.config import TransformerConfig

# Keeps a norm of 0 from dividing, as the original's SMALL_CONST.
_SMALL = 1e-15


@dataclasses.dataclass(frozen=True)
class Amounts:
  """How far to move; `pplm.BAG` and `pplm.DISCRIMINATOR` are the original's.

  Attributes:
    stepsize: of an iteration.
    num_iterations: K, iterations a token.
    gamma: exponent of the gradient's norm; 1 makes steps of one length.
    gm_scale: share of the moved distribution in the geometric mean.
    kl_scale: weight of the divergence from the model's own distribution.
    window_length: so many most recent positions are moved; 0 for all.
    horizon_length: soft tokens that the discriminator looks ahead.
  """

  stepsize: float
  num_iterations: int
  gamma: float
  gm_scale: float
  kl_scale: float = 0.01
  window_length: int = 0
  horizon_length: int = 1

  def check(self, looks_ahead: bool) -> None:
    """Checks ranges.

    Args:
      looks_ahead: whether there is a discriminator.

    Raises:
      errors.UserError: a value out of range.
    """
    finite = lambda x: isinstance(x, int | float) and math.isfinite(x)
    for field in ("stepsize", "gamma", "kl_scale"):
      value = getattr(self, field)
      if not finite(value) or value < 0:
        raise errors.UserError(
            f"{field}={value!r} must be a finite number, 0 or more."
        )
    if not finite(self.gm_scale) or not 0 <= self.gm_scale <= 1:
      raise errors.UserError(f"gm_scale={self.gm_scale!r} must be 0 to 1.")
    for field, least in (
        ("num_iterations", 0), ("window_length", 0),
        ("horizon_length", int(looks_ahead)),
    ):
      value = getattr(self, field)
      if type(value) is not int or value < least:
        raise errors.UserError(
            f"{field}={value!r} must be a whole number, {least} or more."
        )


class Goal(NamedTuple):
  """What is wanted, a row each; one of bag and head is None.

  Attributes:
    bag: bool [B, V], tokens of which one should follow.
    kernel: float32 [D, C], the discriminator.
    bias: float32 [C].
    target: int32 [B], the class wanted.
  """

  bag: jax.Array | None = None
  kernel: jax.Array | None = None
  bias: jax.Array | None = None
  target: jax.Array | None = None


class State(NamedTuple):
  """What is known between two tokens.

  Attributes:
    own: the model's session, which has read all tokens.
    cache: the moved keys and values, of all tokens but the last.
    last: int32 [B], the last token.
    hidden_sum: float32 [B, D], the model's own hidden states of all but the
      last token, summed.
    norms: the largest gradients' norms so far, see `gradient_norms`.
  """

  own: steps.Session
  cache: Any
  last: jax.Array
  hidden_sum: jax.Array
  norms: Any


def pairs(config: TransformerConfig, cache: Any) -> tuple[Any, ...]:
  """A cache as a tuple of (keys, values): one a layer, or one [L, ...]."""
  return (cache,) if config.scans_layers else tuple(cache)


def gradient_norms(config: TransformerConfig, gradient: Any) -> Any:
  """A norm a layer and row: a tuple of [B], or of one [L, B].

  Of a layer's keys and values together, which in the original are one tensor.
  """
  square = lambda x: jnp.square(x).sum((-3, -2, -1))
  return tuple(
      jnp.sqrt(square(k) + square(v)) for k, v in pairs(config, gradient)
  )


def window_mask(
    size: int, index: jax.Array, window_length: int
) -> jax.Array:
  """The positions that may move, bool [S]: the last before `index`."""
  slots = jnp.arange(size)
  mask = slots < index
  return mask & (slots >= index - window_length) if window_length else mask


def read_rows(
    config: TransformerConfig,
    params: Any,
    cache: Any,
    index: jax.Array,
    padding: jax.Array,
    rows_BD: jax.Array,
) -> tuple[jax.Array, Any]:
  """Reads one row of the table, or a mixture of some, for each row.

  Args:
    config: the model's.
    params: from `steps.prepare`.
    cache: keys and values.
    index: int32 scalar, the slot that is written.
    padding: int32 [B].
    rows_BD: what is read, without position.

  Returns:
    The hidden state after the final norm [B, D], and the new cache.
  """
  size = jax.tree.leaves(cache)[0].shape[-2]
  slots = jnp.arange(size)[None]
  mask = (slots >= padding[:, None]) & (slots <= index)
  positions = jnp.clip(index - padding, 0, config.max_length - 1)[:, None]
  x = transformer.embed_rows(config, params, rows_BD[:, None], positions)
  hidden, cache = stack.apply(
      config, params["layers"], x, mask[:, None, None], cache=cache,
      index=index, positions=positions,
  )
  return transformer.final_norm(config, params, hidden[:, 0]), cache


def log_probs(config: TransformerConfig, params: Any, hidden: jax.Array):
  """The next token's log-probabilities, float32 [B, V], of [B, D]."""
  session = steps.Session(None, hidden, None, None)
  return jax.nn.log_softmax(steps.next_logits(config, params, session))


def loss(
    config: TransformerConfig,
    params: Any,
    goal: Goal,
    amounts: Amounts,
    state: State,
    delta: Any,
) -> jax.Array:
  """The loss of a moved cache, a number a row, float32 [B].

  Args:
    config: the model's.
    params: from `steps.prepare`.
    goal: what is wanted.
    amounts: how much of what.
    state: before this token.
    delta: what is added to `state.cache`, a tree like it, float32.
  """
  own = state.own
  moved = add(state.cache, delta)
  rows = params["embedding"]["table"][state.last]
  hidden, _ = read_rows(
      config, params, moved, own.index - 1, own.padding, rows
  )
  moved_log = log_probs(config, params, hidden)
  total = 0.0
  if goal.bag is not None:
    inside = jnp.where(goal.bag, moved_log, -jnp.inf)
    total = total - jax.nn.logsumexp(inside, axis=-1)
  else:
    total = total + _discriminator_loss(
        config, params, goal, amounts, state, hidden, moved_log
    )
  if amounts.kl_scale:
    own_log = log_probs(config, params, own.hidden)
    kl = (jnp.exp(moved_log) * (moved_log - own_log)).sum(-1)
    total = total + amounts.kl_scale * kl
  return total


def _discriminator_loss(
    config, params, goal, amounts, state, hidden, moved_log
):
  """Cross-entropy of the class, some soft tokens ahead.

  Soft tokens (mixtures of the table's rows, by probability) are read after the
  model's own cache; through the first of them the gradient reaches delta, as in
  the original, which takes `hidden` for a constant.
  """
  own = state.own
  total = state.hidden_sum + jax.lax.stop_gradient(hidden).astype(jnp.float32)
  cache, ahead_log = own.cache, moved_log
  table = params["embedding"]["table"]
  for i in range(amounts.horizon_length):
    soft = jnp.exp(ahead_log).astype(table.dtype) @ table
    ahead, cache = read_rows(
        config, params, cache, own.index + i, own.padding, soft
    )
    total = total + ahead.astype(jnp.float32)
    ahead_log = log_probs(config, params, ahead)
  count = own.index - own.padding + amounts.horizon_length
  mean = total / count[:, None].astype(jnp.float32)
  log_p = jax.nn.log_softmax(mean @ goal.kernel + goal.bias[None])
  return -jnp.take_along_axis(log_p, goal.target[:, None], axis=-1)[:, 0]


def add(cache: Any, delta: Any) -> Any:
  """The cache moved by `delta`, in the cache's dtype."""
  return jax.tree.map(lambda x, d: (x + d).astype(x.dtype), cache, delta)


def find_delta(
    config: TransformerConfig,
    params: Any,
    goal: Goal,
    amounts: Amounts,
    state: State,
) -> tuple[Any, Any]:
  """Iterates; returns delta, float32, a tree like the cache, and the norms.

  For a bag the norm that divides is the largest so far, this text's earlier
  tokens included; for a discriminator it is the gradient's own.
  """
  size = jax.tree.leaves(state.cache)[0].shape[-2]
  index = state.own.index - 1  # The last token is not in the cache yet.
  mask = window_mask(size, index, amounts.window_length)
  gradient_of = jax.grad(
      lambda d: loss(config, params, goal, amounts, state, d).sum()
  )

  def iteration(_, carry):
    delta, norms = carry
    gradient = jax.tree.map(
        lambda g: jnp.where(mask.reshape((1,) * (g.ndim - 2) + (-1, 1)), g, 0),
        gradient_of(delta),
    )
    new = gradient_norms(config, gradient)
    if goal.bag is not None:
      new = jax.tree.map(jnp.maximum, norms, new)

    def move(d, g, norm):
      scale = (norm + _SMALL) ** amounts.gamma
      return d - amounts.stepsize * g / scale.reshape(*norm.shape, 1, 1, 1)

    moved = tuple(
        (move(dk, gk, norm), move(dv, gv, norm))
        for (dk, dv), (gk, gv), norm in zip(
            pairs(config, delta), pairs(config, gradient), new, strict=True
        )
    )
    return moved[0] if config.scans_layers else moved, new

  zeros = jax.tree.map(
      lambda x: jnp.zeros(x.shape, jnp.float32), state.cache
  )
  return jax.lax.fori_loop(
      0, amounts.num_iterations, iteration, (zeros, state.norms)
  )


@functools.partial(jax.jit, static_argnums=(0, 2))
def next_log_probs(
    config: TransformerConfig,
    params: Any,
    amounts: Amounts,
    goal: Goal,
    state: State,
) -> tuple[jax.Array, Any, Any]:
  """The distribution of the next token, and what is carried on.

  Returns:
    log(p_moved^gm * p_own^(1 - gm)), normalised, float32 [B, V]; the moved
    cache with the last token read; the norms.
  """
  own = state.own
  delta, norms = find_delta(config, params, goal, amounts, state)
  rows = params["embedding"]["table"][state.last]
  hidden, cache = read_rows(
      config, params, add(state.cache, delta), own.index - 1, own.padding, rows
  )
  own_log = log_probs(config, params, own.hidden)
  fused = own_log
  if amounts.gm_scale:
    moved_log = log_probs(config, params, hidden)
    gm = amounts.gm_scale
    fused = jax.nn.log_softmax(gm * moved_log + (1 - gm) * own_log)
  return fused, cache, norms


@functools.partial(jax.jit, static_argnums=(0, 2, 7))
def step(
    config: TransformerConfig,
    params: Any,
    amounts: Amounts,
    goal: Goal,
    state: State,
    progress: steps.Progress,
    values: dict[str, jax.Array],
    rules: rules_lib.Rules,
) -> tuple[State, steps.Progress, jax.Array, jax.Array]:
  """Generates one token a row; see `steps.generate_block`.

  Returns:
    The new state and progress, int32 tokens [B], and bool [B]: whether their
    logits were finite.
  """
  fused, cache, norms = next_log_probs(config, params, amounts, goal, state)
  early = progress.step < values["min_steps"]
  ids = jnp.arange(config.vocab_size)
  banned = values["banned"] | ((ids == values["end"]) & early)
  keys = jax.vmap(lambda k: jax.random.fold_in(k, progress.step))(progress.keys)
  token = rules_lib.choose(
      fused, progress.seen, banned[None], keys, values, rules
  )
  rows = jnp.arange(token.shape[0])
  own = state.own
  state = State(
      steps.read(config, params, own, token),
      cache,
      token,
      state.hidden_sum + own.hidden.astype(jnp.float32),
      norms,
  )
  progress = steps.Progress(
      progress.seen.at[rows, token].set(True),
      progress.step + 1,
      progress.done | (token == values["end"]),
      progress.keys,
  )
  return state, progress, token, jnp.isfinite(fused[rows, token])


def start(
    config: TransformerConfig,
    params: Any,
    ids: jax.Array,
    padding: jax.Array,
    cache_length: int,
) -> State:
  """Reads prompts; none of them empty.

  Args:
    config: the model's.
    params: from `steps.prepare`.
    ids: int32 [B, T], of which the first `padding[b]` are none.
    padding: int32 [B].
    cache_length: S, slots for prompt, result and look-ahead.
  """
  own = steps.prefill(config, params, ids, padding, cache_length)
  batch, length = ids.shape
  shape = (config.num_layers, batch) if config.scans_layers else (batch,)
  count = 1 if config.scans_layers else config.num_layers
  return State(
      own,
      # The last token's slot is written again before it is read.
      own.cache,
      ids[:, -1],
      _hidden_sum(config, params, ids, padding),
      tuple(jnp.zeros(shape, jnp.float32) for _ in range(count)),
  )


@functools.partial(jax.jit, static_argnums=0)
def _hidden_sum(config, params, ids, padding):
  """Of all but each row's last token, float32 [B, D]."""
  length = ids.shape[1]
  slots = jnp.arange(min(length, config.max_length))[None]
  # Turned, so that texts begin at position 0; what follows them sees them, not
  # they it.
  turned = jnp.take_along_axis(ids, (slots + padding[:, None]) % length, axis=1)
  hidden = transformer.hidden_states(config, params, turned)
  inside = slots < length - 1 - padding[:, None]
  return jnp.where(inside[..., None], hidden.astype(jnp.float32), 0).sum(1)
