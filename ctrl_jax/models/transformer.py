"""One decoder-only Transformer: CTRL, GPT-2 and Llama are configurations of it.

Shape letters, here and everywhere:
  B batch, T positions, S positions of keys, D d_model, H heads, K head size,
  F d_ff, V vocabulary (padded rows included), L layers.

The parameters are one tree:

  embedding/table [V, D]       also the head, where they are tied
  positions/table [P, D]       learned positions only (GPT-2)
  layers/...      [L, ...]     stacked blocks
  final_norm/{scale, bias} [D]  an RMS norm (Llama) has no bias
  head/bias       [V]          CTRL only
  head/table      [V, D]       untied heads only (some Llamas)

The layers run in `stack.py`; `Transformer` declares the tree and puts the
functions together.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax.models import stack
from ctrl_jax.models.block import constrain, dropout, make_norm
from ctrl_jax.models.config import TransformerConfig

Params = Mapping[str, Any]


def sinusoidal_positions(length: int, d_model: int) -> np.ndarray:
  """Returns CTRL's table of positions, float32 [length, d_model].

  Row p is sin(p / 10000^(2k/D)) for k < D/2, then the cosines: concatenated,
  not interleaved. Angles are float64 as in the release (transformer.py:4-16);
  float32 angles are off by 4e-3 at position 50,000.
  """
  k = np.arange(d_model // 2, dtype=np.float64)
  angles = np.arange(length, dtype=np.float64)[:, None] / np.power(
      10000.0, 2 * k / d_model
  )
  return np.concatenate([np.sin(angles), np.cos(angles)], -1).astype(np.float32)


def embed(
    config: TransformerConfig,
    params: Params,
    ids_BT: jax.Array,
    positions_BT: jax.Array,
) -> jax.Array:
  """Token embeddings (scaled in CTRL) plus positions, in the compute dtype.

  Rotary positions are added nowhere: `stack` turns queries and keys by them.

  Args:
    config: the model's.
    params: the whole tree; reads `embedding` and `positions`.
    ids_BT: int32 token ids.
    positions_BT: int32 positions below `max_length`, [B, T] or [1, T].
  """
  # Cast first: with the table cut over devices it is what travels.
  rows_BTD = params["embedding"]["table"].astype(config.compute_dtype)[ids_BT]
  return embed_rows(config, params, rows_BTD, positions_BT)


def embed_rows(
    config: TransformerConfig,
    params: Params,
    x_BTD: jax.Array,
    positions_BT: jax.Array,
) -> jax.Array:
  """Like `embed`, of rows of the table, or mixtures of them, [B, T, D]."""
  x_BTD = x_BTD.astype(jnp.float32)
  if config.scale_embedding:
    x_BTD = x_BTD * math.sqrt(config.d_model)
  if config.positions == "rotary":
    return constrain(x_BTD.astype(config.compute_dtype))
  if config.positions == "learned":
    table = params["positions"]["table"]
  else:
    table = jnp.asarray(sinusoidal_positions(config.max_length, config.d_model))
  return constrain((x_BTD + table[positions_BT]).astype(config.compute_dtype))


def final_norm(
    config: TransformerConfig, params: Params, x_BTD: jax.Array
) -> jax.Array:
  """The norm between the last block and the head."""
  norm = make_norm(config, parent=None)
  return norm.apply({"params": params["final_norm"]}, x_BTD)


def head_table(config: TransformerConfig, params: Params) -> jax.Array:
  """The head's table [V, D], padded rows included: the embedding's if tied."""
  return params["embedding" if config.tied_head else "head"]["table"]


def head(
    config: TransformerConfig, params: Params, hidden: jax.Array
) -> jax.Array:
  """Logits, float32 [..., vocab_size], of hidden states [..., D]."""
  table = head_table(config, params)[: config.vocab_size]
  logits = jnp.einsum(
      "...d,vd->...v", hidden, table.astype(hidden.dtype),
      preferred_element_type=jnp.float32,
  )
  if config.head_bias:
    bias = params["head"]["bias"][: config.vocab_size]
    logits = logits + bias.reshape((1,) * (logits.ndim - 1) + (-1,))
  return logits


def hidden_states(
    config: TransformerConfig,
    params: Params,
    ids_BT: jax.Array,
    *,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
  """Causal hidden states [B, T, D] after the final norm: the head's input.

  Args:
    config: the model's.
    params: the whole tree.
    ids_BT: int32 ids, padded on the right if at all (causality keeps the
      padding out of what is before it).
    dropout_key: None for no dropout.
  """
  return hidden_states_with_taps(
      config, params, ids_BT, (), dropout_key=dropout_key
  )[0]


def hidden_states_with_taps(
    config: TransformerConfig,
    params: Params,
    ids_BT: jax.Array,
    taps: Sequence[int],
    *,
    dropout_key: jax.Array | None = None,
    input_BD: jax.Array | None = None,
    extra_kv: tuple[jax.Array, jax.Array] | None = None,
    extra_mask: jax.Array | None = None,
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
  """`hidden_states`, and [B, T, D] behind so many blocks for each of `taps`.

  Args:
    config: see `hidden_states`, like the next two and `dropout_key`.
    params: the whole tree.
    ids_BT: int32 ids.
    taps: depths.
    dropout_key: None for no dropout.
    input_BD: what is added to every token's embedding, if anything.
    extra_kv: keys and values in front of every layer's own, see `stack.apply`.
    extra_mask: see `stack.apply_with_taps`.
  """
  num_positions = ids_BT.shape[1]
  assert num_positions <= config.max_length, (num_positions, config.max_length)
  embed_key = stack_key = None
  if dropout_key is not None:
    embed_key, stack_key = jax.random.split(dropout_key)
  x_BTD = embed(config, params, ids_BT, jnp.arange(num_positions)[None])
  if input_BD is not None:
    x_BTD = x_BTD + input_BD.astype(x_BTD.dtype)[:, None]
  x_BTD = dropout(x_BTD, config.dropout, embed_key)
  x_BTD, _, tapped = stack.apply_with_taps(
      config, params["layers"], x_BTD, None, taps, dropout_key=stack_key,
      extra_kv=extra_kv, extra_mask=extra_mask,
  )
  return final_norm(config, params, x_BTD), tapped


def shallow(params: Params, count: int) -> Params:
  """A model's first `count` blocks and its final norm, without its tables.

  What a smaller network beside the model begins as.
  """
  return {
      "layers": stack.first(params["layers"], count),
      "final_norm": params["final_norm"],
  }


class Transformer(nn.Module):
  """The language model as a Linen module: declares the parameter tree.

  Example:

  >>> c = TransformerConfig(vocab_size=97, d_model=16, d_ff=32, num_layers=2,
  ...                       num_heads=4, max_length=8)
  >>> model = Transformer(c)
  >>> params = init(c, jax.random.key(0))
  >>> model.apply({"params": params}, jnp.zeros((3, 8), jnp.int32)).shape
  (3, 8, 97)
  """

  config: TransformerConfig

  def setup(self):
    c = self.config
    rows = c.padded_vocab_size
    partitioned = nn.with_logical_partitioning
    table = partitioned(_padded_normal(c), ("vocab", "vocab_embed"))
    tree = {
        "embedding": self.param(
            "embedding", lambda k: {"table": table(k, (rows, c.d_model))}
        ),
        "layers": self.param("layers", lambda k: stack.init_boxed(c, k)),
        "final_norm": self.param("final_norm", lambda k: _final_norm(c, k)),
    }
    if c.positions == "learned":
      init = partitioned(
          nn.initializers.normal(c.embedding_init), ("position", "vocab_embed")
      )
      tree["positions"] = self.param(
          "positions", lambda k: {"table": init(k, (c.max_length, c.d_model))}
      )
    head = {}
    if c.head_bias:
      head["bias"] = partitioned(nn.initializers.zeros, ("vocab",)), (rows,)
    if not c.tied_head:
      head["table"] = table, (rows, c.d_model)
    if head:
      tree["head"] = self.param(
          "head",
          lambda k: {name: f(k, shape) for name, (f, shape) in head.items()},
      )
    self.tree = tree

  def declare(self) -> None:
    """Declares the parameters and computes nothing."""

  def __call__(
      self, ids_BT: jax.Array, dropout_key: jax.Array | None = None
  ) -> jax.Array:
    """Logits, float32 [B, T, vocab_size], of int32 ids [B, T]."""
    hidden_BTD = hidden_states(
        self.config, self.tree, ids_BT, dropout_key=dropout_key
    )
    return head(self.config, self.tree, hidden_BTD)


def _final_norm(config: TransformerConfig, key: jax.Array) -> Params:
  norm = make_norm(config, parent=None)
  return norm.init(key, jnp.zeros((1, config.d_model)))["params"]


def _padded_normal(config: TransformerConfig):
  """Normal initialiser whose padding rows are zero and stay so."""

  def init(key, shape):
    x = config.embedding_init * jax.random.normal(
        key, (config.vocab_size, shape[1])
    )
    return jnp.pad(x, ((0, shape[0] - config.vocab_size), (0, 0)))

  return init


def init(config: TransformerConfig, key: jax.Array) -> Params:
  """Returns initial parameters, float32, without their logical axes."""
  return nn.unbox(init_boxed(config, key))


def init_boxed(config: TransformerConfig, key: jax.Array) -> Params:
  """Initial parameters in Linen boxes that name their logical axes."""
  return Transformer(config).init(key, method="declare")["params"]


def num_parameters(config: TransformerConfig) -> int:
  """Counts parameters without allocating any; padding is none."""
  plain = dataclasses.replace(config, vocab_multiple=1)
  abstract = jax.eval_shape(functools.partial(init, plain), jax.random.key(0))
  return sum(math.prod(x.shape) for x in jax.tree.leaves(abstract))
