"""How a latent z reaches a decoder: parameters, and what they make of z.

  "input"                  a projection of z is added to every token's embedding
                           (1 in the CVAE's paper; Optimus, too)
  "pseudo_self_attention"  a key and a value in front of every layer's (2)
  "softmax"                a vector of logits for the whole sequence (3)
  "memory"                 one vector a layer in front, as key and value at once
                           (Optimus, Li et al. 2020, `modeling_gpt2.py`. There
                           it counts as a token, so that positions begin at 1.)

Two more are whole networks, see `models/cvae.py`: "auxiliary", one of Auxiliary
Tuning's beside a frozen decoder, which reads z as its attribute; and, without a
latent, "encoder_sequence", what the encoder makes of the prompt, a key and a
value a token (pseudo self-attention as Ziegler et al. 2019 have it).

Letters as in `models/transformer.py`; Z latent, M extra keys.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from ctrl_jax.models.config import TransformerConfig

NAMES = ("input", "pseudo_self_attention", "softmax", "memory")
# Standard deviation of new kernels: GPT-2's and the authors'.
INIT = 0.02
Params = Any


class Injection(NamedTuple):
  """What a latent gives to the decoder; None for ways that are not used.

  Attributes:
    input: [B, D], added to every token's embedding.
    extra_kv: keys and values [L, B, G, M, K].
    extra_mask: bool [B, M], which of these a row has; None for all.
    auxiliary: float32 [B, Z], what an auxiliary beside the decoder reads.
    row_logits: float32 [B, V], padded rows included.
  """

  input: jax.Array | None = None
  extra_kv: tuple[jax.Array, jax.Array] | None = None
  extra_mask: jax.Array | None = None
  auxiliary: jax.Array | None = None
  row_logits: jax.Array | None = None


def num_extra_keys(names: tuple[str, ...]) -> int:
  """Returns M, the keys that some of `NAMES` put in front of a layer's own."""
  return sum(name in names for name in ("pseudo_self_attention", "memory"))


def init_boxed(
    base: TransformerConfig,
    names: tuple[str, ...],
    latent: int,
    keys: Iterator[jax.Array],
    shared_projection: bool = False,
) -> Params:
  """Initial parameters in boxes that name their logical axes, by injection.

  Args:
    base: the decoder's sizes.
    names: of `NAMES`; others have no parameters here.
    latent: Z.
    keys: of the random numbers.
    shared_projection: see `config.default()`.
  """
  tree = {}
  if "input" in names:
    kernel = normal(next(keys), (None, "embed"), latent, base.d_model)
    tree["input"] = {"kernel": kernel}
  if "pseudo_self_attention" in names:
    axes = (None if shared_projection else "layers", None, "embed")
    shares = 1 if shared_projection else base.num_layers
    shape = shares, latent, base.d_model
    projection = {"kernel": normal(next(keys), axes, *shape)}
    tree["pseudo_self_attention"] = {
        "projection": projection, **key_and_value(base, keys),
    }
  if "softmax" in names:
    rows = base.padded_vocab_size
    tree["softmax"] = linear(next(keys), (None, "vocab"), latent, rows)
  if "memory" in names:
    axes = ("layers", None, "heads")
    shape = base.num_layers, latent, base.kv_heads * base.head_size
    tree["memory"] = {"kernel": normal(next(keys), axes, *shape)}
  return tree


def key_and_value(base: TransformerConfig, keys: Iterator[jax.Array]) -> Params:
  """Projections to every layer's keys and values, [L, D, G*K] and biases."""
  axes = ("layers", "embed", "heads")
  shape = base.num_layers, base.d_model, base.kv_heads * base.head_size
  return {name: linear(next(keys), axes, *shape) for name in ("key", "value")}


def linear(key: jax.Array, axes: tuple, *shape: int) -> Params:
  """A kernel, [..., in, out], and a bias [..., out] of zeros, in boxes."""
  bias = jnp.zeros((*shape[:-2], shape[-1]))
  bias_axes = (*axes[:-2], axes[-1])
  return {
      "kernel": normal(key, axes, *shape),
      "bias": nn.LogicallyPartitioned(bias, bias_axes),
  }


def normal(key: jax.Array, axes: tuple, *shape: int) -> Any:
  """Random numbers in a box."""
  value = INIT * jax.random.normal(key, shape)
  return nn.LogicallyPartitioned(value, axes)


def inject(
    base: TransformerConfig, params: Params, z_BZ: jax.Array
) -> Injection:
  """What latents, float32 [B, Z], give to the decoder.

  Args:
    base: the decoder's sizes.
    params: holds those of `init_boxed`; what is not there is not used.
    z_BZ: the latents.
  """
  dtype = base.compute_dtype
  z = z_BZ.astype(dtype)
  found, extra = {}, []
  if "input" in params:
    found["input"] = z @ params["input"]["kernel"].astype(dtype)
  if "pseudo_self_attention" in params:
    # Equation 3: a layer's share of z, which as in the authors' code is not
    # normalised before it is projected.
    p = params["pseudo_self_attention"]
    kernel = p["projection"]["kernel"].astype(dtype)
    z_LBMD = jnp.einsum("bz,lzd->lbd", z, kernel)[:, :, None]
    extra.append(project(base, p, z_LBMD))
  if "memory" in params:
    kernel = params["memory"]["kernel"].astype(dtype)
    both = heads(base, jnp.einsum("bz,lzk->lbk", z, kernel)[:, :, None])
    extra.append((both, both))
  if "auxiliary" in params:
    found["auxiliary"] = z_BZ
  if extra:
    found["extra_kv"] = tuple(
        jnp.concatenate(part, axis=-2) for part in zip(*extra)
    )
  if "softmax" in params:
    p = params["softmax"]
    found["row_logits"] = p["bias"][None] + jnp.matmul(
        z, p["kernel"].astype(dtype), preferred_element_type=jnp.float32
    )
  return Injection(**found)


def project(
    base: TransformerConfig, params: Params, x_LBMD: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Every layer's keys and values, [L, B, G, M, K], of vectors.

  Args:
    base: the decoder's sizes.
    params: of `key_and_value`.
    x_LBMD: [L, B, M, D], or [1, B, M, D] for the same in every layer.
  """
  dtype = x_LBMD.dtype
  shape = (base.num_layers, *x_LBMD.shape[1:])

  def one(p):
    x = jnp.broadcast_to(x_LBMD, shape)
    y = jnp.einsum("lbmd,ldk->lbmk", x, p["kernel"].astype(dtype))
    return heads(base, y + p["bias"].astype(dtype)[:, None, None])

  return one(params["key"]), one(params["value"])


def heads(base: TransformerConfig, x_LBMK: jax.Array) -> jax.Array:
  """[L, B, M, G*K] -> [L, B, G, M, K]."""
  shape = (*x_LBMK.shape[:3], base.kv_heads, base.head_size)
  return x_LBMK.reshape(shape).swapaxes(2, 3)
