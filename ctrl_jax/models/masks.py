"""Masks of attention: True where a query sees a key."""

import jax
import jax.numpy as jnp


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
