"""Terms: what is added to a language model's logits, each with its own cache.

  logits = base + sum(weight_i * term_i)

A term reads what the base reads, token by token, beside it, and what the base's
stack gives at `taps`; it holds its own parameters and shares the base's.
Letters as in `models/transformer.py`; A attribute length, S the cache's length.
"""

from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp

from ctrl_jax.models import auxiliary, stack
from ctrl_jax.models.auxiliary import AuxiliaryConfig, LinenAuxiliary
from ctrl_jax.models.config import TransformerConfig


class TermState(NamedTuple):
  """What a term has read so far.

  Attributes:
    cache: keys and values, the attribute's first; of a Linen module, which
      has no cache, the tokens [B, S].
    output: [B, ...], the last token's: hidden states or logits.
    attribute: int32 [B, A]; of an auxiliary that reads a latent, float32
      [B, Z].
    attribute_length: int32 [B], 0 for no attribute.
    weight: float32 scalar.
  """

  cache: Any
  output: jax.Array
  attribute: jax.Array
  attribute_length: jax.Array
  weight: jax.Array


class Reading(NamedTuple):
  """What base and terms read at one time.

  Attributes:
    ids: int32 [B, T].
    positions: int32 [B, T], counted without padding.
    mask: bool [B or 1, 1, T, S], who sees whom among the text's tokens.
    index: int32 scalar, the cache's slot of the first token.
    padding: int32 [B], slots before each row's first token.
    taps: the base's states at the term's depths, each [B, T, D].
  """

  ids: jax.Array
  positions: jax.Array
  mask: jax.Array
  index: jax.Array
  padding: jax.Array
  taps: tuple[jax.Array, ...]


@flax.struct.dataclass
class Term:
  """An auxiliary beside its frozen model, laid out for decoding.

  Attributes:
    params: the auxiliary's.
    config: what it is.
  """

  params: Any
  config: AuxiliaryConfig | LinenAuxiliary = flax.struct.field(
      pytree_node=False
  )

  def start(self, attribute, attribute_length, weight, slots) -> TermState:
    """The state before anything is read, for a text of `slots` slots."""
    batch, size = attribute.shape[0], self.config.attribute_length
    if isinstance(self.config, LinenAuxiliary):
      cache = jnp.zeros((batch, slots), jnp.int32)
    else:
      cache = empty_cache(self.config.transformer, batch, size + slots)
    return TermState(
        cache, jnp.zeros(()), attribute, attribute_length, weight
    )

  def prefill(
      self, base_params: Any, state: TermState, reading: Reading
  ) -> TermState:
    """Reads the attribute and a prompt."""
    if isinstance(self.config, LinenAuxiliary):
      return self._recompute(state, reading)
    c, size = self.config, self.config.attribute_length
    x = jnp.concatenate(
        [
            auxiliary.attribute_inputs(
                c, self.params, base_params, state.attribute
            ),
            self._text_inputs(reading),
        ],
        axis=1,
    )
    mask = auxiliary.attention_mask(
        state.attribute_length, size, reading.mask
    )
    batch = reading.ids.shape[0]
    positions = jnp.concatenate(
        [
            jnp.broadcast_to(jnp.arange(size), (batch, size)),
            jnp.broadcast_to(reading.positions, reading.ids.shape),
        ],
        axis=1,
    )
    return self._run(state, x, mask, jnp.int32(0), positions)

  def read(
      self, base_params: Any, state: TermState, reading: Reading
  ) -> TermState:
    """Reads one token a row."""
    del base_params
    if isinstance(self.config, LinenAuxiliary):
      return self._recompute(state, reading)
    size = self.config.attribute_length
    mask = auxiliary.attention_mask(state.attribute_length, size, reading.mask)
    return self._run(
        state, self._text_inputs(reading), mask[:, :, size:],
        size + reading.index, reading.positions,
    )

  def _text_inputs(self, reading):
    return auxiliary.text_inputs(
        self.config, self.params, reading.ids, reading.positions, reading.taps
    )

  def _run(self, state, x, mask, index, positions):
    x, cache = stack.apply(
        self.config.transformer, self.params["layers"], x, mask,
        cache=state.cache, index=index, positions=positions,
    )
    output = auxiliary.project(self.config, self.params, x[:, -1])
    return state._replace(cache=cache, output=output)

  def _recompute(self, state, reading):
    """A module without a cache reads all again; right, if not fast.

    It wants texts that begin in the first slot, so rows are turned.
    """
    tokens = jax.lax.dynamic_update_slice_in_dim(
        state.cache, reading.ids, reading.index, axis=1
    )
    slots = jnp.arange(tokens.shape[1])[None] + reading.padding[:, None]
    text = jnp.take_along_axis(tokens, slots % tokens.shape[1], axis=1)
    result = self.config.output(
        self.params, None, text, (), state.attribute, state.attribute_length
    )
    last = reading.index + reading.ids.shape[1] - 1 - reading.padding
    output = jnp.take_along_axis(result.hidden, last[:, None, None], axis=1)
    return state._replace(cache=tokens, output=output[:, 0])


def prepare(config: Any, params: Any) -> Term:
  """Lays an auxiliary out for decoding; call it once, outside jit.

  As `steps.prepare` does for the base: matrices in the compute dtype, the
  stack taken apart where layers are unrolled.
  """
  if isinstance(config, LinenAuxiliary):
    return Term(params, config)
  layers = lay_out(config.transformer, params["layers"])
  return Term(dict(params, layers=layers), config)


def lay_out(config: TransformerConfig, layers: Any) -> Any:
  """Blocks [L, ...] in the compute dtype, taken apart where unrolled."""
  layers = jax.tree_util.tree_map_with_path(
      lambda path, x: cast(path, x, config.compute_dtype), layers
  )
  return layers if config.scans_layers else stack.unstack(layers)


def cast(path: Any, x: jax.Array, dtype: Any) -> jax.Array:
  """Returns a block's leaf in the compute dtype; norms stay as they are."""
  names = {getattr(key, "key", None) for key in path}
  return x if names & {"norm1", "norm2"} else x.astype(dtype)


def share(
    term: Term, state: TermState, base_hidden: jax.Array
) -> tuple[jax.Array | None, jax.Array | None]:
  """A term's weighted share: of the hidden states, or of the logits.

  Returns:
    [B, D] to be added to what the base's table is multiplied with, or None; and
    float32 logits [B, V], or None.
  """
  c = term.config
  is_logits = isinstance(c, LinenAuxiliary) and c.is_logits
  vocab_size = c.base.vocab_size
  if is_logits:
    return None, state.weight * state.output.astype(jnp.float32)[:, :vocab_size]
  if getattr(c, "kind", "") == "independent":
    table = term.params["embedding"]["table"][:vocab_size]
    logits = jnp.einsum(
        "bd,vd->bv", state.output, table.astype(state.output.dtype),
        preferred_element_type=jnp.float32,
    )
    return None, state.weight * logits
  shift = c.shift(term.params, base_hidden, state.output)
  return (state.weight * shift).astype(base_hidden.dtype), None


def empty_cache(config: TransformerConfig, batch: int, length: int) -> Any:
  """Keys and values of `length` slots, zeros, as `stack.apply` wants."""
  shape = (batch, config.kv_heads, length, config.head_size)
  if config.scans_layers:
    shape = (config.num_layers, *shape)
    return tuple(jnp.zeros(shape, config.compute_dtype) for _ in range(2))
  return tuple(
      tuple(jnp.zeros(shape, config.compute_dtype) for _ in range(2))
      for _ in range(config.num_layers)
  )
