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

`nn.scan` cannot run part of its stack, so the unit of reuse is the function
`stack` over stacked parameters. `Transformer` declares the tree and puts the
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

from ctrl_jax.models import rotary
from ctrl_jax.models.block import Block, constrain, dropout, make_norm
from ctrl_jax.models.config import TransformerConfig

Params = Mapping[str, Any]

_REMAT_POLICIES = {
    "full": None,
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}


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


def causal_mask(num_queries: int, num_keys: int | None = None) -> jax.Array:
  """Returns bool [1, 1, T, S]: query t sees keys up to t."""
  num_keys = num_queries if num_keys is None else num_keys
  return jnp.tril(jnp.ones((1, 1, num_queries, num_keys), bool))


def mask_with_extra(
    mask: jax.Array, count: int, extra_mask_BM: jax.Array | None = None
) -> jax.Array:
  """A mask for `count` more keys in front.

  Args:
    mask: bool [B or 1, H or 1, T, S].
    count: M.
    extra_mask_BM: bool, which of them a row's queries see; None for all.

  Returns:
    bool [B, H or 1, T, M + S].
  """
  if extra_mask_BM is None:
    front = [(0, 0)] * 3 + [(count, 0)]
    return jnp.pad(mask, front, constant_values=True)
  batch = max(mask.shape[0], extra_mask_BM.shape[0])
  shape = (batch, *mask.shape[1:3])
  parts = extra_mask_BM[:, None, None], mask
  return jnp.concatenate(
      [jnp.broadcast_to(x, (*shape, x.shape[-1])) for x in parts], axis=-1
  )


def unstack(layers: Params | tuple[Params, ...]) -> tuple[Params, ...]:
  """Takes stacked parameters [L, ...] apart into one tree a layer.

  Inside a differentiated function the transpose is one concatenation a leaf
  (`lax.split`), not L sums of padded slices. For decoding call it once,
  outside jit: slicing inside the loop costs 1.7 times on CPU.
  """
  if isinstance(layers, tuple):
    return layers
  leaves, tree = jax.tree.flatten(layers)
  num_layers = leaves[0].shape[0]
  split = [
      [part.squeeze(0) for part in jax.lax.split(x, (1,) * num_layers)]
      for x in leaves
  ]
  return tuple(jax.tree.unflatten(tree, parts) for parts in zip(*split))


def stack(
    config: TransformerConfig,
    layers: Params | tuple[Params, ...],
    x_BTD: jax.Array,
    mask: jax.Array | None,
    *,
    dropout_key: jax.Array | None = None,
    cache: Any = None,
    index: jax.Array | None = None,
    positions: jax.Array | None = None,
    extra_kv: tuple[jax.Array, jax.Array] | None = None,
) -> tuple[jax.Array, Any]:
  """Runs blocks over `x_BTD`.

  Args:
    config: the model's; `num_layers` is not read, the stack's length counts.
    layers: stacked parameters [L, ...] (scanned or unrolled, as the
      configuration says) or a tuple of one tree a layer (unrolled).
    x_BTD: input in the compute dtype.
    mask: bool, broadcastable to [B, H, T, S]; True where a query sees a key.
      None is the causal mask over T positions, without a cache.
    dropout_key: one key for all layers, or None for no dropout.
    cache: None, or keys and values that the new ones are written into:
      a pair of [L, B, G, S, K] for stacked parameters, a tuple of pairs
      [B, G, S, K] for a tuple; G is `config.kv_heads`. Rotary keys lie there
      turned.
    index: int32 scalar, where in the cache the T new positions begin.
    positions: int32 [B, T] or [1, T], which rotary positions alone read; None
      for 0, 1, ... without a cache.
    extra_kv: keys and values [L, B, G, M, K] that stand in front of the
      layers' own (pseudo self-attention): they have no position, every query
      sees them, and rotary keys among them are not turned. With a cache they
      are written to it from `index` on, the text's behind them, and `mask`
      covers their slots, too; later calls find them there.

  Returns:
    The last block's output [B, T, D], and the new cache (None without one).
  """
  x_BTD, cache, _ = stack_with_taps(
      config, layers, x_BTD, mask, (), dropout_key=dropout_key, cache=cache,
      index=index, positions=positions, extra_kv=extra_kv,
  )
  return x_BTD, cache


def stack_with_taps(
    config: TransformerConfig,
    layers: Params | tuple[Params, ...],
    x_BTD: jax.Array,
    mask: jax.Array | None,
    taps: Sequence[int],
    *,
    dropout_key: jax.Array | None = None,
    cache: Any = None,
    index: jax.Array | None = None,
    positions: jax.Array | None = None,
    extra_kv: tuple[jax.Array, jax.Array] | None = None,
    extra_mask: jax.Array | None = None,
) -> tuple[jax.Array, Any, tuple[jax.Array, ...]]:
  """Like `stack`, and gives what runs between its blocks.

  Args:
    config: see `stack`, like the other arguments.
    layers: stacked parameters, or a tuple.
    x_BTD: input.
    mask: who sees whom.
    taps: depths, 0 to L: how many blocks a tap lies behind.
    dropout_key: for all layers.
    cache: keys and values.
    index: where in the cache.
    positions: for rotary ones.
    extra_kv: keys and values in front.
    extra_mask: bool [B, M], which of these a row sees; None for all. With a
      cache, `mask` says so.

  Returns:
    The output, the cache, and [B, T, D] for each of `taps`.
  """
  block = Block(config, parent=None)
  rotation = None
  if config.positions == "rotary":
    assert positions is not None or cache is None
    if positions is None:
      positions = jnp.arange(x_BTD.shape[1])[None]
    rotation = rotary.rotation(config, positions)
  if extra_mask is not None and mask is None:
    mask = causal_mask(x_BTD.shape[1])
  if extra_kv is not None and mask is not None and cache is None:
    mask = mask_with_extra(mask, extra_kv[0].shape[-2], extra_mask)

  def apply(params, x, key, layer_cache, extra):
    return block.apply(
        {"params": params}, x, mask, key, layer_cache, index, rotation, extra
    )

  if config.remat != "none" and cache is None:
    apply = jax.checkpoint(
        apply, policy=_REMAT_POLICIES[config.remat], prevent_cse=False
    )
  num_layers = depth(layers)
  keys = (
      None if dropout_key is None else jax.random.split(dropout_key, num_layers)
  )
  seen = tuple(x_BTD for _ in taps)
  if config.scans_layers and not isinstance(layers, tuple):
    if cache is not None:
      return _scan_with_cache(
          apply, layers, x_BTD, taps, cache, index, extra_kv
      )

    def body(carry, inputs):
      x, seen = carry
      params, key, extra, i = inputs
      x, _ = apply(params, x, key, None, extra)
      return (x, _tap(x, seen, taps, i)), None

    inputs = (layers, keys, extra_kv, jnp.arange(num_layers))
    (x_BTD, seen), _ = jax.lax.scan(body, (x_BTD, seen), inputs)
    return x_BTD, None, seen

  new_cache = []
  stacked_cache = cache is not None and not isinstance(layers, tuple)
  if stacked_cache:
    cache = tuple(zip(*cache))
  for i, params in enumerate(unstack(layers)):
    x_BTD, layer_cache = apply(
        params,
        x_BTD,
        None if keys is None else keys[i],
        None if cache is None else cache[i],
        None if extra_kv is None else tuple(part[i] for part in extra_kv),
    )
    seen = tuple(x_BTD if i < t else s for s, t in zip(seen, taps))
    new_cache.append(layer_cache)
  if cache is None:
    return x_BTD, None, seen
  if stacked_cache:
    new_cache = tuple(jnp.stack(part) for part in zip(*new_cache))
  return x_BTD, tuple(new_cache), seen


def depth(layers: Params | tuple[Params, ...]) -> int:
  """Returns L, the number of blocks in a stack."""
  if isinstance(layers, tuple):
    return len(layers)
  return jax.tree.leaves(layers)[0].shape[0]


def first_layers(
    layers: Params | tuple[Params, ...], count: int
) -> Params | tuple[Params, ...]:
  """Returns the stack of the first `count` blocks."""
  if isinstance(layers, tuple):
    return layers[:count]
  return jax.tree.map(lambda x: x[:count], layers)


def shallow(params: Params, count: int) -> Params:
  """A model's first `count` blocks and its final norm, without its tables.

  What a smaller network beside the model begins as.
  """
  return {
      "layers": first_layers(params["layers"], count),
      "final_norm": params["final_norm"],
  }


def _tap(x_BTD, seen, taps, layer):
  """What taps have seen behind a scanned layer, carried along: no other depth's
  states are kept."""
  return tuple(
      jnp.where(layer < tap, x_BTD, s) for s, tap in zip(seen, taps)
  )


def _scan_with_cache(apply, layers, x_BTD, taps, cache, index, extra_kv):
  """Runs the layers; of the cache only the new positions are written.

  The whole cache is carried along: as an input and an output of the scan it
  would be copied several times a step.
  """
  num_new = x_BTD.shape[1]
  if extra_kv is not None:
    num_new += extra_kv[0].shape[-2]

  def body(carry, inputs):
    x, seen, cache = carry
    layer, params, extra = inputs
    old = tuple(
        jax.lax.dynamic_index_in_dim(part, layer, keepdims=False)
        for part in cache
    )
    x, new = apply(params, x, None, old, extra)
    new = (
        jax.lax.dynamic_slice_in_dim(part, index, num_new, axis=2)
        for part in new
    )
    cache = tuple(
        jax.lax.dynamic_update_slice(part, n[None], (layer, 0, 0, index, 0))
        for part, n in zip(cache, new)
    )
    return (x, _tap(x, seen, taps, layer), cache), None

  start = (x_BTD, tuple(x_BTD for _ in taps), cache)
  inputs = (jnp.arange(depth(layers)), layers, extra_kv)
  (x_BTD, seen, cache), _ = jax.lax.scan(body, start, inputs)
  return x_BTD, cache, seen


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
    extra_kv: keys and values in front of every layer's own, see `stack`.
    extra_mask: see `stack_with_taps`.
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
  x_BTD, _, tapped = stack_with_taps(
      config, params["layers"], x_BTD, None, taps, dropout_key=stack_key,
      extra_kv=extra_kv, extra_mask=extra_mask,
  )
  return final_norm(config, params, x_BTD), tapped


def _stacked_blocks(config: TransformerConfig, key: jax.Array) -> Params:
  """Initial parameters of all blocks, each leaf [L, ...] with its axes."""
  x = jnp.zeros((1, 1, config.d_model), config.compute_dtype)
  block = Block(config, parent=None)

  def init(k):
    return block.init(k, x, None)["params"]

  stacked = jax.vmap(init)(jax.random.split(key, config.num_layers))
  return jax.tree.map(
      lambda box: box.replace(names=("layers", *box.names)),
      stacked,
      is_leaf=lambda box: isinstance(box, nn.LogicallyPartitioned),
  )


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
        "layers": self.param("layers", lambda k: _stacked_blocks(c, k)),
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
