"""Rules on logits: pure functions of float32 [B, V], applied in this order.

  penalty, bans, temperature, top-k, top-p, choice

Dividing by theta and dividing by the temperature commute, so penalising before
or after the temperature is the same. No function sorts the vocabulary: at
V=246,534 a sort takes 94 ms a row on CPU, `top_k(1024)` 1.5 ms.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax import errors

# Tokens that top-k and top-p look at before they search the whole vocabulary.
WINDOW = 1024
# Below this a temperature is greedy in float32 and must not become a subnormal.
_MIN_TEMPERATURE = 1e-20


@dataclasses.dataclass(frozen=True)
class Rules:
  """The part of the options that the compiled step is specialised to.

  Attributes:
    sample: whether to draw; False takes the largest logit.
    penalty: the penalty's rule, "paper" or "sign_aware"; "" is off.
    top_k: 0 is off.
    top_p: whether the nucleus is on.
    top_p_crossing: whether it keeps the token that crosses p.
    exempt: whether some tokens have no penalty.
    ban_after: whether some are banned after the cuts.
  """

  sample: bool
  penalty: str
  top_k: int = 0
  top_p: bool = False
  top_p_crossing: bool = True
  exempt: bool = False
  ban_after: bool = False


def check_some_token(
    banned: np.ndarray,
    banned_after: np.ndarray | None,
    end_id: int | None,
    min_new_tokens: int,
) -> None:
  """Refuses to ban all tokens, which would let any of them come.

  Args:
    banned: bool [V].
    banned_after: bool [V], banned after the cuts; None for none.
    end_id: the id that ends a row; None for none.
    min_new_tokens: tokens before it may.

  Raises:
    errors.UserError: no token may come, or none before the end may.
  """
  if banned_after is not None:
    banned = banned | banned_after
  if banned.all():
    raise errors.UserError("Every token is banned: ban fewer.")
  if end_id is not None and min_new_tokens > 0 and (
      np.delete(banned, end_id).all()
  ):
    raise errors.UserError(
        "Every token but the end of the text is banned, and that one is before"
        f" min_new_tokens={min_new_tokens}: ban fewer, or set it to 0."
    )


def penalise(
    logits: jax.Array, seen: jax.Array, theta: jax.Array, rule: str
) -> jax.Array:
  """Discounts the tokens in `seen` (bool [B, V]) by theta.

  x_i / theta for every seen token i ("paper": section 4.1's formula and the
  release's code), so that a negative logit rises; "sign_aware" multiplies
  negative logits (Hugging Face's RepetitionPenaltyLogitsProcessor).
  """
  discounted = logits / theta
  if rule == "sign_aware":
    discounted = jnp.where(logits < 0, logits * theta, discounted)
  return jnp.where(seen, discounted, logits)


def ban(logits: jax.Array, banned: jax.Array) -> jax.Array:
  """Sets logits where `banned` (bool, broadcastable) to minus infinity."""
  return jnp.where(banned, -jnp.inf, logits)


def heat(logits: jax.Array, temperature: jax.Array) -> jax.Array:
  """(logits - their maximum) / temperature: no overflow at low ones."""
  shifted = logits - logits.max(-1, keepdims=True)
  return shifted / jnp.maximum(temperature, _MIN_TEMPERATURE)


def keep_top_k(logits: jax.Array, k: int) -> jax.Array:
  """Keeps the k largest logits a row; of equal ones, the lower ids."""
  k = min(k, logits.shape[-1])
  if k <= WINDOW:
    return _scatter(logits, *jax.lax.top_k(logits, k))
  order = _order(logits)
  kth = _largest(order, lambda mask: mask.sum(-1) >= k)
  above, equal = order > kth, order == kth
  room = k - above.sum(-1, keepdims=True)
  return _keep(logits, above | (equal & (jnp.cumsum(equal, -1) <= room)))


def keep_top_p(
    logits: jax.Array,
    p: jax.Array,
    window: int = WINDOW,
    crossing: bool = True,
) -> jax.Array:
  """Keeps the fewest most probable tokens whose probabilities reach p.

  A token stays if those before it, in falling order of probability (of equal
  ones the lower id first), sum to less than p; so the one that crosses p stays
  (section 4.1). Exact: rows whose nucleus does not fit in `window` tokens
  search the whole vocabulary for the threshold.

  Args:
    logits: float32 [B, V]; minus infinity is allowed, one must be finite.
    p: float32 scalar in (0, 1).
    window: how many of the largest logits to look at first.
    crossing: False drops the token that crosses p, but keeps one at least
      (generation.py of the release).
  """
  window = min(window, logits.shape[-1])
  log_total = jax.nn.logsumexp(logits, -1, keepdims=True)
  top, ids = jax.lax.top_k(logits, window)
  probs = jnp.exp(top - log_total)
  total = jnp.cumsum(probs, -1)
  good = total - probs < p
  if not crossing:
    good = (total <= p) | (jnp.arange(window) == 0)[None]
  kept = _scatter(logits, jnp.where(good, top, -jnp.inf), ids)
  if window == logits.shape[-1]:
    return kept
  # Each row takes its own result: a row must not depend on its neighbours.
  overflow = total[:, -1:] < p
  return jax.lax.cond(
      overflow.any(),
      lambda: jnp.where(
          overflow, _search_top_p(logits, log_total, p, crossing), kept
      ),
      lambda: kept,
  )


def _search_top_p(logits, log_total, p, crossing):
  probs = jnp.exp(logits - log_total)
  order = _order(logits)

  def mass(mask):
    return jnp.where(mask, probs, 0).sum(-1)

  threshold = _largest(order, lambda mask: mass(mask) >= p)
  above, equal = order > threshold, order == threshold
  before = mass(above)[:, None] + probs * (jnp.cumsum(equal, -1) - 1)
  good = before < p if crossing else before + probs <= p
  return _keep(logits, above | (equal & good))


def _keep(logits, mask):
  return jnp.where(mask, logits, -jnp.inf)


def _scatter(logits, values, ids):
  """[B, V] of minus infinity with `values` [B, k] at `ids` [B, k]."""
  rows = jnp.arange(logits.shape[0])[:, None]
  return jnp.full_like(logits, -jnp.inf).at[rows, ids].set(values)


def _order(logits: jax.Array) -> jax.Array:
  """uint32 that sort as the float32 do (equal floats map to equal integers)."""
  logits = jnp.where(logits == 0, 0.0, logits)  # -0.0 equals 0.0.
  bits = jax.lax.bitcast_convert_type(logits, jnp.uint32)
  return jnp.where(bits >> 31, ~bits, bits | jnp.uint32(1 << 31))


def _largest(order: jax.Array, good: Callable) -> jax.Array:
  """The largest t [B, 1] a row for which `good(order >= t)`, bit by bit.

  `good` maps bool [B, V] to bool [B], and stays true as t falls; t is 0 where
  it never holds.
  """

  def body(i, t):
    candidate = t | (jnp.uint32(1 << 31) >> i.astype(jnp.uint32))
    return jnp.where(good(order >= candidate)[:, None], candidate, t)

  start = jnp.zeros((order.shape[0], 1), jnp.uint32)
  return jax.lax.fori_loop(0, 32, body, start)


def largest(logits: jax.Array) -> jax.Array:
  """argmax, the lower id of equal ones; int32 [B].

  A maximum and a minimum, since XLA's argmax is scalar code on CPU: 0.04
  against 0.01 ms at [1, 8192], 0.31 against 0.08 at [8, 8192]. A row with a NaN
  gives V - 1 or the place of a NaN: never out of range.
  """
  num_tokens = logits.shape[-1]
  ids = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1)
  top = logits.max(-1, keepdims=True)
  return jnp.where(logits == top, ids, num_tokens - 1).min(-1)


def _ban_after(cut, whole, banned):
  """Bans after the cuts; in a row that this empties, the best one stays.

  Where top-k and top-p leave nothing but what is banned after them, the release
  ends in an IndexError (generation.py deletes from the list, and takes from
  it). Here such a row takes its most probable token that no rule bans.

  Args:
    cut: logits [B, V] after top-k and top-p.
    whole: before them.
    banned: bool, broadcastable to [B, V].
  """
  cut, whole = ban(cut, banned), ban(whole, banned)
  ids = jax.lax.broadcasted_iota(jnp.int32, cut.shape, 1)
  best = _keep(whole, ids == largest(whole)[:, None])
  return jnp.where(cut.max(-1, keepdims=True) == -jnp.inf, best, cut)


def choose(
    logits: jax.Array,
    seen: jax.Array,
    banned: jax.Array,
    keys: jax.Array,
    values: dict[str, jax.Array],
    rules: Rules,
) -> jax.Array:
  """Applies all rules and chooses.

  Args:
    logits: float32 [B, V].
    seen: bool [B, V]: tokens of the prompt and the result so far.
    banned: bool, broadcastable to [B, V].
    keys: a PRNG key a row, [B]; read only when sampling.
    values: float32 scalars `penalty`, `temperature`, `top_p`; where the rules
      say so, bool [V] `exempt` and `banned_after`.
    rules: which rules apply.

  Returns:
    int32 [B].
  """
  if rules.penalty:
    if rules.exempt:
      seen = seen & ~values["exempt"][None]
    logits = penalise(logits, seen, values["penalty"], rules.penalty)
  logits = ban(logits, banned)
  if not rules.sample:
    if rules.ban_after:
      logits = ban(logits, values["banned_after"][None])
    return largest(logits)
  whole = logits = heat(logits, values["temperature"])
  if rules.top_k:
    logits = keep_top_k(logits, rules.top_k)
  if rules.top_p:
    logits = keep_top_p(
        logits, values["top_p"], crossing=rules.top_p_crossing
    )
  if rules.ban_after:
    logits = _ban_after(logits, whole, values["banned_after"][None])
  # Gumbel's maximum over the whole row: a token's noise does not depend on
  # which others were kept.
  noise = jax.vmap(lambda k: jax.random.gumbel(k, logits.shape[1:]))(keys)
  return largest(logits + noise)
