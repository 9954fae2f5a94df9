"""A stack of blocks over stacked parameters: whole, in part, with a cache.

`nn.scan` cannot run part of its stack, so the unit of reuse is the function
`apply` over parameters [L, ...], scanned or unrolled.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from ctrl_jax.models import masks, rotary
from ctrl_jax.models.block import Block
from ctrl_jax.models.config import TransformerConfig

Params = Mapping[str, Any]

_REMAT_POLICIES = {
    "full": None,
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}


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


def apply(
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
  x_BTD, cache, _ = apply_with_taps(
      config, layers, x_BTD, mask, (), dropout_key=dropout_key, cache=cache,
      index=index, positions=positions, extra_kv=extra_kv,
  )
  return x_BTD, cache


def apply_with_taps(
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
  """Like `apply`, and gives what runs between its blocks.

  Args:
    config: see `apply`, like the other arguments.
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
  if extra_mask is not None and mask is None:
    mask = masks.causal_mask(x_BTD.shape[1])
  if extra_kv is not None and mask is not None and cache is None:
    mask = masks.mask_with_extra(mask, extra_kv[0].shape[-2], extra_mask)
  if config.positions == "rotary" and positions is None:
    assert cache is None
    positions = jnp.arange(x_BTD.shape[1])[None]
  block = _block(config, mask, index, positions, remat=cache is None)
  keys = (
      None
      if dropout_key is None
      else jax.random.split(dropout_key, depth(layers))
  )
  if isinstance(layers, tuple) or not config.scans_layers:
    return _unroll(block, layers, x_BTD, taps, keys, cache, extra_kv)
  if cache is None:
    return _scan(block, layers, x_BTD, taps, keys, extra_kv)
  return _scan_with_cache(block, layers, x_BTD, taps, cache, index, extra_kv)


def _block(
    config: TransformerConfig, mask, index, positions, remat: bool
) -> Callable[..., tuple[jax.Array, Any]]:
  """Returns f(params, x, dropout key, cache, extra keys) of one layer."""
  block = Block(config, parent=None)
  rotation = None
  if config.positions == "rotary":
    rotation = rotary.rotation(config, positions)

  def apply(params, x, key, layer_cache, extra):
    return block.apply(
        {"params": params}, x, mask, key, layer_cache, index, rotation, extra
    )

  if not remat or config.remat == "none":
    return apply
  return jax.checkpoint(
      apply, policy=_REMAT_POLICIES[config.remat], prevent_cse=False
  )


def _unroll(block, layers, x_BTD, taps, keys, cache, extra_kv):
  """Runs the layers one after the other, each with code of its own."""
  is_stacked = cache is not None and not isinstance(layers, tuple)
  if is_stacked:
    cache = tuple(zip(*cache))
  seen, new_cache = tuple(x_BTD for _ in taps), []
  for i, params in enumerate(unstack(layers)):
    x_BTD, layer_cache = block(
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
  if is_stacked:
    new_cache = (jnp.stack(part) for part in zip(*new_cache))
  return x_BTD, tuple(new_cache), seen


def _scan(block, layers, x_BTD, taps, keys, extra_kv):
  """Runs the layers in one loop: compiled once, whatever their number."""

  def body(carry, inputs):
    x, seen = carry
    params, key, extra, i = inputs
    x, _ = block(params, x, key, None, extra)
    return (x, _tap(x, seen, taps, i)), None

  start = (x_BTD, tuple(x_BTD for _ in taps))
  inputs = (layers, keys, extra_kv, jnp.arange(depth(layers)))
  (x_BTD, seen), _ = jax.lax.scan(body, start, inputs)
  return x_BTD, None, seen


def _scan_with_cache(block, layers, x_BTD, taps, cache, index, extra_kv):
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
    x, new = block(params, x, None, old, extra)
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


def _tap(x_BTD, seen, taps, layer):
  """What taps have seen behind a scanned layer, carried along: no other depth's
  states are kept."""
  return tuple(
      jnp.where(layer < tap, x_BTD, s) for s, tap in zip(seen, taps)
  )


def depth(layers: Params | tuple[Params, ...]) -> int:
  """Returns L, the number of blocks in a stack."""
  if isinstance(layers, tuple):
    return len(layers)
  return jax.tree.leaves(layers)[0].shape[0]


def first(
    layers: Params | tuple[Params, ...], count: int
) -> Params | tuple[Params, ...]:
  """Returns the stack of the first `count` blocks."""
  if isinstance(layers, tuple):
    return layers[:count]
  return jax.tree.map(lambda x: x[:count], layers)


def init_boxed(config: TransformerConfig, key: jax.Array) -> Params:
  """Initial parameters of all blocks, each [L, ...] in a box of its axes."""
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
