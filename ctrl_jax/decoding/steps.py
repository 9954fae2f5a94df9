"""The compiled part of generation: prefill, and blocks of steps.

Rows are padded on the left: row b's tokens end at one shared index, its
positions are `index - padding[b]`, and the mask hides what is before.

Shape letters are those of `models/transformer.py`; S is the cache's length.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ctrl_jax.decoding import latents as latents_lib
from ctrl_jax.decoding import rules as rules_lib
from ctrl_jax.decoding import terms as terms_lib
from ctrl_jax.models import masks, stack, transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.injections import Injection


class Session(NamedTuple):
  """What has been read so far.

  Attributes:
    cache: keys and values, as `stack.apply` wants them; a latent's extra
      keys in the first slots.
    hidden: [B, D], the last token's after the final norm: the head's input.
    index: int32 scalar, where in the cache the next token goes, counted behind
      the extra keys.
    padding: int32 [B].
    terms: a `terms.TermState` for each term.
    latent: what a latent adds to each token and to the logits, or None; its
      `extra_kv` are in the cache.
  """

  cache: Any
  hidden: jax.Array
  index: jax.Array
  padding: jax.Array
  terms: tuple[terms_lib.TermState, ...] = ()
  latent: Injection | None = None


class Progress(NamedTuple):
  """What has been written so far.

  Attributes:
    seen: bool [B, V], tokens of the prompt and the result.
    step: int32 scalar, tokens generated.
    done: bool [B].
    keys: a PRNG key a row, [B].
  """

  seen: jax.Array
  step: jax.Array
  done: jax.Array
  keys: jax.Array


def prepare(config: TransformerConfig, params: transformer.Params):
  """Returns `params` laid out for decoding; call it once, outside jit.

  The padding of the vocabulary is cut off, and what matrix products read is in
  the compute dtype (norms, positions and the head's bias stay float32). Where
  layers are unrolled, on CPU, the stack is taken apart and the head gets a copy
  of its table of its own, `head/kernel` [D, V]: at 8 rows and V=8192 that
  product takes 0.6 ms against 0.9.
  """
  dtype = config.compute_dtype
  params = dict(params)
  layers = terms_lib.lay_out(config, params["layers"])
  table = transformer.head_table(config, params)[: config.vocab_size]
  embedding = params["embedding"]["table"][: config.vocab_size]
  params["embedding"] = {"table": embedding.astype(dtype)}
  head = {}
  if config.head_bias:
    head["bias"] = params["head"]["bias"][: config.vocab_size]
  if not config.scans_layers:
    head["kernel"] = jnp.array(table.T, dtype)
  elif not config.tied_head:
    head["table"] = table.astype(dtype)
  return params | {"layers": layers, "head": head}


@functools.partial(jax.jit, static_argnums=(0, 4))
def prefill(
    config: TransformerConfig,
    params: transformer.Params,
    ids: jax.Array,
    padding: jax.Array,
    cache_length: int,
    attributes: tuple[tuple[jax.Array, jax.Array, jax.Array], ...] = (),
    latent: jax.Array | None = None,
) -> Session:
  """Reads prompts.

  Args:
    config: the model's.
    params: from `prepare`, with `terms`, a tuple of `terms.Term`, if any, and
      `latent`, a `latents.Latent`, if there is one.
    ids: int32 [B, T], of which the first `padding[b]` are none.
    padding: int32 [B].
    cache_length: S, slots for prompt and result.
    attributes: (ids int32 [B, A], lengths int32 [B], weight float32) a term.
    latent: see `latents.inject`.
  """
  batch, length = ids.shape
  slots = jnp.arange(length)
  positions = jnp.maximum(slots[None] - padding[:, None], 0)
  real = slots[None] >= padding[:, None]
  mask = masks.causal_mask(length) & real[:, None, None]
  terms = params.get("terms", ())
  injection = latents_lib.inject(config, params, latent)
  extra = latents_lib.num_extra_keys(params)
  hidden, cache, taps = stack.apply_with_taps(
      config,
      params["layers"],
      latents_lib.embed(config, params, ids, positions, injection),
      latents_lib.with_extra(mask, extra, injection),
      _taps(terms),
      cache=terms_lib.empty_cache(config, batch, extra + length),
      index=jnp.int32(0),
      positions=positions,
      extra_kv=None if injection is None else injection.extra_kv,
  )

  def grow(cache):
    """Adds the slots of what is generated."""
    pad = [(0, 0, 0)] * 4
    pad[2] = (0, cache_length - length, 0)
    if config.scans_layers:
      pad = [(0, 0, 0), *pad]
    return jax.tree.map(lambda x: jax.lax.pad(x, x.dtype.type(0), pad), cache)

  states = []
  for term, own, (attribute, attribute_length, weight) in zip(
      terms, _cut(taps, terms), attributes, strict=True
  ):
    state = term.start(attribute, attribute_length, weight, cache_length)
    # The whole cache is there, so that a prompt's keys are in its first part.
    wide = jnp.pad(mask, ((0, 0),) * 3 + ((0, cache_length - length),))
    reading = terms_lib.Reading(
        ids, positions, wide, jnp.int32(0), padding, own
    )
    states.append(term.prefill(params, state, reading))
  hidden = transformer.final_norm(config, params, hidden[:, -1])
  if injection is not None:
    injection = injection._replace(extra_kv=None)
  return Session(
      grow(cache), hidden, jnp.int32(length), padding, tuple(states), injection
  )


def _taps(terms) -> tuple[int, ...]:
  return tuple(tap for term in terms for tap in term.config.taps)


def _cut(taps, terms):
  """Gives each term its own of all taps."""
  taps = iter(taps)
  return [tuple(next(taps) for _ in term.config.taps) for term in terms]


@functools.partial(jax.jit, static_argnums=(0, 2))
def repeat(config: TransformerConfig, session: Session, times: int) -> Session:
  """Every row `times` times, for several samples of one prompt."""
  axis = 1 if config.scans_layers else 0
  rows = lambda x: jnp.repeat(x, times, 0)

  def repeat_cache(cache):
    return jax.tree.map(
        lambda x: jnp.repeat(x, times, axis if x.ndim > 3 else 0), cache
    )

  states = tuple(
      terms_lib.TermState(
          repeat_cache(state.cache), *map(rows, state[1:-1]), state.weight
      )
      for state in session.terms
  )
  return Session(
      repeat_cache(session.cache),
      rows(session.hidden),
      session.index,
      rows(session.padding),
      states,
      jax.tree.map(rows, session.latent),
  )


def next_logits(
    config: TransformerConfig, params: transformer.Params, session: Session
) -> jax.Array:
  """Logits of the next token, float32 [B, V]: base + sum(weight * term).

  Terms on the base's table are added as hidden states, before the one product
  with the vocabulary. A term is known up to a constant, which rules that are
  not shift-invariant (CTRL's penalty) would see: its mean is taken off.
  """
  hidden = session.hidden
  extra = 0.0
  for term, state in zip(params.get("terms", ()), session.terms, strict=True):
    share, logits = terms_lib.share(term, state, session.hidden)
    if share is not None:
      hidden = hidden + share
      centre = share.astype(jnp.float32) @ params["head"]["mean"]
      extra = extra - centre[:, None]
    else:
      extra = extra + logits - logits.mean(-1, keepdims=True)
  if session.latent is not None and session.latent.row_logits is not None:
    logits = session.latent.row_logits
    extra = extra + logits - logits.mean(-1, keepdims=True)
  logits = _base_logits(config, params, hidden)
  return logits if isinstance(extra, float) else logits + extra


def _base_logits(config, params, hidden):
  if "kernel" not in params["head"]:
    return transformer.head(config, params, hidden)
  logits = jnp.matmul(
      hidden, params["head"]["kernel"], preferred_element_type=jnp.float32
  )
  if config.head_bias:
    logits = logits + params["head"]["bias"][None]
  return logits


def read(
    config: TransformerConfig,
    params: transformer.Params,
    session: Session,
    token: jax.Array,
) -> Session:
  """Reads one token a row, int32 [B]."""
  extra = latents_lib.num_extra_keys(params)
  cache_length = jax.tree.leaves(session.cache)[0].shape[-2] - extra
  slots = jnp.arange(cache_length)[None]
  seen = (slots >= session.padding[:, None]) & (slots <= session.index)
  mask = seen[:, None, None]
  # A row that is done goes on; past the window its position does not count.
  positions = jnp.minimum(
      session.index - session.padding, config.max_length - 1
  )[:, None]
  terms = params.get("terms", ())
  hidden, cache, taps = stack.apply_with_taps(
      config,
      params["layers"],
      latents_lib.embed(
          config, params, token[:, None], positions, session.latent
      ),
      latents_lib.with_extra(mask, extra, session.latent),
      _taps(terms),
      cache=session.cache,
      index=session.index + extra,
      positions=positions,
  )
  states = tuple(
      term.read(params, state, terms_lib.Reading(
          token[:, None], positions, mask, session.index, session.padding, own
      ))
      for term, state, own in zip(terms, session.terms, _cut(taps, terms))
  )
  hidden = transformer.final_norm(config, params, hidden[:, 0])
  return Session(
      cache, hidden, session.index + 1, session.padding, states, session.latent
  )


def _without_batch(session):
  """Drops the batch axis of one row's caches.

  With it, XLA on CPU copies the whole cache at every step of the loop: 1.4
  times slower at 4 layers of 256.
  """
  return _map_caches(lambda x: x.squeeze(0), session)


def _with_batch(session):
  return _map_caches(lambda x: x[None], session)


def _map_caches(f, session):
  return session._replace(
      cache=jax.tree.map(f, session.cache),
      terms=tuple(
          state._replace(cache=jax.tree.map(f, state.cache))
          for state in session.terms
      ),
  )


@functools.partial(
    jax.jit, static_argnums=(0, 6, 7), donate_argnames=("session", "progress")
)
def generate_block(
    config: TransformerConfig,
    params: transformer.Params,
    session: Session,
    progress: Progress,
    num_steps: jax.Array,
    values: dict[str, jax.Array],
    rules: rules_lib.Rules,
    block_size: int,
) -> tuple[Session, Progress, jax.Array, jax.Array]:
  """Generates up to `num_steps` tokens a row, fewer when all rows are done.

  Args:
    config: the model's.
    params: from `prepare`.
    session: donated.
    progress: donated.
    num_steps: int32 scalar, at most `block_size`; the last step may fill the
      window or the cache.
    values: `penalty`, `temperature`, `top_p` float32; `banned` bool [V];
      `end` int32, the id that ends a row (-1: none); `min_steps` int32,
      tokens before it may.
    rules: which rules apply.
    block_size: the output's length.

  Returns:
    The new session and progress, int32 tokens [B, block_size], and bool [B]:
    whether all logits chosen were finite.
  """
  batch = session.hidden.shape[0]
  one_row = batch == 1 and not config.scans_layers
  ids = jnp.arange(config.vocab_size)
  rows = jnp.arange(batch)

  def going(carry):
    i, _, progress, _, _ = carry
    return (i < num_steps) & ~progress.done.all()

  def step(carry):
    i, session, progress, tokens, finite = carry
    if one_row:
      session = _with_batch(session)
    logits = next_logits(config, params, session)
    early = progress.step < values["min_steps"]
    banned = values["banned"] | ((ids == values["end"]) & early)
    keys = progress.keys
    if rules.sample:
      keys = jax.vmap(lambda k: jax.random.fold_in(k, progress.step))(keys)
    token = rules_lib.choose(
        logits, progress.seen, banned[None], keys, values, rules
    )
    finite &= jnp.isfinite(logits[rows, token])
    tokens = jax.lax.dynamic_update_slice(tokens, token[:, None], (0, i))
    progress = Progress(
        progress.seen.at[rows, token].set(True),
        progress.step + 1,
        progress.done | (token == values["end"]),
        progress.keys,
    )
    session = read(config, params, session, token)
    if one_row:
      session = _without_batch(session)
    return i + 1, session, progress, tokens, finite

  if one_row:
    session = _without_batch(session)
  carry = (
      jnp.int32(0),
      session,
      progress,
      jnp.zeros((batch, block_size), jnp.int32),
      jnp.ones(batch, bool),
  )
  _, session, progress, tokens, finite = jax.lax.while_loop(going, step, carry)
  if one_row:
    session = _with_batch(session)
  return session, progress, tokens, finite
