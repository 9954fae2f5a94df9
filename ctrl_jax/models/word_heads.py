"""A posterior's mean read off the words of a text, without their order.

The encoders of neural topic models see a text as how often it has each word
(Miao, Yu and Blunsom 2016, "Neural Variational Inference for Text Processing").
What a text is about stands in words that few others have, which the table of a
small decoder hardly tells apart. So beside the heads over the encoder's pooled
states there may be this one: a linear function of the words.

A text's vector has 1 + log n at the place of a token that occurs n times, times
that token's weight; it is scaled to length 1. The weights, those of
`models/bag_of_words.py`, are set by `tasks/cvae_words.py`, like the kernel's
start, and do not train.

Letters as in `models/transformer.py`; Z latent.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from ctrl_jax.models.config import TransformerConfig

Params = Any


def init_boxed(base: TransformerConfig, latent: int) -> Params:
  """Initial parameters in boxes: kernel [V, Z] of zeros, weight [V] of ones."""
  size = base.padded_vocab_size
  box = nn.LogicallyPartitioned
  return {
      "kernel": box(jnp.zeros((size, latent)), ("vocab", None)),
      "weight": box(jnp.ones(size), ("vocab",)),
  }


def mean(params: Params, ids_BT: jax.Array, length_B: jax.Array) -> jax.Array:
  """Returns what the words add to the mean, float32 [B, Z].

  Args:
    params: of `init_boxed`.
    ids_BT: int32 ids.
    length_B: int32, real tokens of each row; what is behind has no effect.
  """
  return vectors(params["weight"], ids_BT, length_B) @ params["kernel"]


def vectors(
    weight_V: jax.Array, ids_BT: jax.Array, length_B: jax.Array
) -> jax.Array:
  """Returns the texts' vectors, float32 [B, V], of length 1 (empty ones 0).

  Args:
    weight_V: float32.
    ids_BT: see `mean`.
    length_B: see `mean`.
  """
  real_BT = jnp.arange(ids_BT.shape[1])[None] < length_B[:, None]
  rows_B1 = jnp.arange(len(ids_BT))[:, None]
  count_BV = jnp.zeros((len(ids_BT), len(weight_V)))
  count_BV = count_BV.at[rows_B1, ids_BT].add(real_BT.astype(jnp.float32))
  x_BV = jnp.where(count_BV > 0, 1 + jnp.log(jnp.maximum(count_BV, 1.0)), 0.0)
  x_BV = x_BV * jax.lax.stop_gradient(weight_V)[None]
  norm_B = jnp.sqrt((x_BV**2).sum(1))
  return x_BV / jnp.maximum(norm_B, 1e-9)[:, None]
