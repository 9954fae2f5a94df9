"""Rotary positions (Su et al. 2021): queries and keys turned by position.

Shape letters are those of `models/transformer.py`; G heads, of queries or keys.
"""

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax.models.config import TransformerConfig

# Cosines and sines, each float32 [B, 1, T, K/2] (B may be 1).
Rotation = tuple[jax.Array, jax.Array]


def rotation(config: TransformerConfig, positions_BT: jax.Array) -> Rotation:
  """Returns what `rotate` turns by at int32 positions, [B, T] or [1, T].

  Pair k of a head turns by position / theta^(2k/K). Angles are float32, as
  everywhere that such models come from: off by 2e-4 at position 8,192.
  """
  size = config.head_size
  exponents = np.arange(0, size, 2, dtype=np.float64) / size
  frequencies = (config.rotary_theta**-exponents).astype(np.float32)
  angles = positions_BT.astype(jnp.float32)[:, None, :, None] * jnp.asarray(
      frequencies
  ).reshape(1, 1, 1, -1)
  return jnp.cos(angles), jnp.sin(angles)


def rotate(x_BGTK: jax.Array, turn: Rotation, order: str) -> jax.Array:
  """Turns each pair of elements; computed in float32, in x's dtype.

  Args:
    x_BGTK: queries or keys.
    turn: of `rotation`.
    order: "halves" pairs element k with K/2+k, "pairs" 2k with 2k+1.
  """
  cos, sin = turn
  x = x_BGTK.astype(jnp.float32)
  if order == "halves":
    a, b = jnp.split(x, 2, axis=-1)
  else:
    a, b = x[..., 0::2], x[..., 1::2]
  turned = a * cos - b * sin, b * cos + a * sin
  if order == "halves":
    out = jnp.concatenate(turned, axis=-1)
  else:
    out = jnp.stack(turned, axis=-1).reshape(x.shape)
  return out.astype(x_BGTK.dtype)


def halves_from_pairs(x: np.ndarray, num_heads: int) -> np.ndarray:
  """Reorders a projection's outputs so that "halves" computes what "pairs" did.

  Attention does not change when queries and keys are permuted alike.

  Args:
    x: [num_heads * K, ...], the kernel's outputs first.
    num_heads: heads of x.
  """
  heads = x.reshape(num_heads, -1, 2, *x.shape[1:])
  return np.ascontiguousarray(heads.swapaxes(1, 2)).reshape(x.shape)
