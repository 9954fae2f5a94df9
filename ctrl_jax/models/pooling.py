"""Attention-average blocks: a sequence of vectors -> one vector.

Letters as in `models/transformer.py`. Softmax in float32; padding is left out
by length. A row of length 0 gives the plain mean, finite and of no meaning.
"""

import jax
import jax.numpy as jnp

from ctrl_jax.models import block

KINDS = ("attention", "gelu")


def pool(
    kind: str,
    query_D: jax.Array,
    x_BTD: jax.Array,
    length_B: jax.Array,
    num_heads: int,
) -> jax.Array:
  """Averages the first `length_B` vectors of each row, weighted: [B, D].

  Args:
    kind: "attention" or "gelu".
    query_D: the one parameter.
    x_BTD: vectors.
    length_B: int32, how many of each row are real.
    num_heads: of "attention"; "gelu" has one.
  """
  real = jnp.arange(x_BTD.shape[1])[None] < length_B[:, None]
  return _BY_KIND[kind](query_D.astype(x_BTD.dtype), x_BTD, real, num_heads)


def _attention(query, x, real, num_heads):
  """The paper's (section "Latent code from the encoder"): multi-head attention
  of one learned query q_avg, "K=V taken as the variable length sequence of
  vectors", so without projections."""
  heads = x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)
  query = jnp.broadcast_to(
      query.reshape(1, num_heads, 1, -1), (x.shape[0], num_heads, 1,
                                           heads.shape[-1])
  )
  mixed = block.attention(query, heads, heads, real[:, None, None])
  return mixed.reshape(x.shape[0], -1)


def _gelu(query, x, real, num_heads):
  """The authors' code's (`averageSelfAttention` of model.py): one head, scores
  GELU(x w) without scaling, GELU with the error function. No score is below
  -0.17, so a token is hardly ever left out."""
  del num_heads
  scores = jnp.einsum(
      "btd,d->bt", x, query, preferred_element_type=jnp.float32
  )
  scores = jax.nn.gelu(scores, approximate=False)
  scores = jnp.where(real, scores, jnp.finfo(jnp.float32).min)
  weights = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
  return jnp.einsum("bt,btd->bd", weights, x)


_BY_KIND = {"attention": _attention, "gelu": _gelu}
