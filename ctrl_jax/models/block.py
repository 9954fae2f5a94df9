"""A Transformer block and its parts, as Linen modules on one layer's tree.

Shape letters are those of `models/transformer.py`.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax.models import rotary
from ctrl_jax.models.config import TransformerConfig

# One layer's keys and values so far, each [B, G, S, K]; G heads of keys.
LayerCache = tuple[jax.Array, jax.Array]


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
  """Zeroes elements of `x` with probability `rate` and scales the rest.

  Draws 16 bits an element, half of what `jax.random.bernoulli` draws: the rate
  is off by less than 2^-17, and the scale is the inverse of the rate drawn.
  """
  if key is None or rate == 0.0:
    return x
  if x.shape[-1] % 2:
    bits = jax.random.bits(key, x.shape, jnp.uint16)
  else:
    words = jax.random.bits(key, (*x.shape[:-1], x.shape[-1] // 2), jnp.uint32)
    bits = jax.lax.bitcast_convert_type(words, jnp.uint16).reshape(x.shape)
  threshold = round(rate * 2**16)
  scale = 2**16 / (2**16 - threshold)
  return jnp.where(bits >= threshold, x * scale, 0).astype(x.dtype)


class LayerNorm(nn.Module):
  """Layer normalisation in float32 whatever the input's dtype."""

  epsilon: float

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    logical = functools.partial(nn.with_logical_partitioning, names=("embed",))
    scale = self.param("scale", logical(nn.initializers.ones), (x.shape[-1],))
    bias = self.param("bias", logical(nn.initializers.zeros), (x.shape[-1],))
    x32 = x.astype(jnp.float32)
    centred = x32 - x32.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    y = centred * jax.lax.rsqrt(variance + self.epsilon)
    shape = (1,) * (x.ndim - 1) + (-1,)
    return (y * scale.reshape(shape) + bias.reshape(shape)).astype(x.dtype)


class RMSNorm(nn.Module):
  """Division by the root mean square, in float32 whatever the input's dtype.

  Source: Zhang and Sennrich 2019; LlamaRMSNorm of transformers.
  """

  epsilon: float

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    ones = nn.with_logical_partitioning(nn.initializers.ones, ("embed",))
    scale = self.param("scale", ones, (x.shape[-1],))
    x32 = x.astype(jnp.float32)
    mean = jnp.square(x32).mean(-1, keepdims=True)
    y = x32 * jax.lax.rsqrt(mean + self.epsilon)
    return (y * scale.reshape((1,) * (x.ndim - 1) + (-1,))).astype(x.dtype)


def make_norm(config: TransformerConfig, **kwargs) -> nn.Module:
  """Returns the configuration's norm; `kwargs` are Linen's: name, parent."""
  kind = {"layer": LayerNorm, "rms": RMSNorm}[config.norm]
  return kind(config.layer_norm_epsilon, **kwargs)


class Linear(nn.Module):
  """`x @ kernel + bias`; declares the parameters.

  Attributes:
    features: size of the output.
    axes: logical axes of the kernel.
    has_bias: whether there is one.
  """

  features: int
  axes: tuple[str, str]
  has_bias: bool = True

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    return linear(x, *self.parameters(x.shape[-1]))

  @nn.compact
  def parameters(self, in_features: int) -> tuple[jax.Array, jax.Array | None]:
    """Returns kernel [in_features, features] and bias [features], if any."""
    partitioned = nn.with_logical_partitioning
    kernel = self.param(
        "kernel",
        partitioned(nn.initializers.glorot_uniform(), self.axes),
        (in_features, self.features),
    )
    if not self.has_bias:
      return kernel, None
    bias = self.param(
        "bias",
        partitioned(nn.initializers.zeros, ("bias",)),
        (self.features,),
    )
    return kernel, bias


def linear(
    x: jax.Array, kernel: jax.Array, bias: jax.Array | None
) -> jax.Array:
  """`x @ kernel + bias`, computed on [B*T, D] (faster than 3-D on CPU)."""
  flat = x.reshape(-1, x.shape[-1]) @ kernel.astype(x.dtype)
  if bias is not None:
    flat = flat + bias.astype(x.dtype)[None]
  return flat.reshape(*x.shape[:-1], kernel.shape[-1])


def init_linear(key: jax.Array, width: int, features: int) -> dict:
  """A kernel [width, features] and a bias, in boxes, cut over no axis."""
  module = Linear(features, (None, None), parent=None)
  return module.init(key, jnp.zeros((1, width)))["params"]


@jax.custom_vjp
def attention(
    q_BHTK: jax.Array, k_BHSK: jax.Array, v_BHSK: jax.Array, mask: jax.Array
) -> jax.Array:
  """Scaled dot-product attention; softmax in float32.

  Its gradient is written out: it keeps exp(scores) and divides the small
  [T, K] output instead of the [T, S] probabilities, which makes it twice as
  fast on CPU as what autodiff derives.

  Args:
    q_BHTK: queries.
    k_BHSK: keys.
    v_BHSK: values.
    mask: bool, broadcastable to [B, H, T, S]; True where a query sees a key.

  Returns:
    [B, H, T, K] in the values' dtype.
  """
  return _attention_forward(q_BHTK, k_BHSK, v_BHSK, mask)[0]


def _attention_forward(q, k, v, mask):
  scores = jnp.einsum(
      "bhtk,bhsk->bhts", q * q.shape[-1] ** -0.5, k,
      preferred_element_type=jnp.float32,
  )
  scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
  largest = scores.max(-1, keepdims=True)
  exps = jnp.exp(scores - largest)
  total = exps.sum(-1, keepdims=True)
  exps = exps.astype(v.dtype)
  out = jnp.einsum(
      "bhts,bhsk->bhtk", exps, v, preferred_element_type=jnp.float32
  )
  out = (out / total).astype(v.dtype)
  return out, (q, k, v, exps, total, out)


def _attention_backward(saved, d_out):
  q, k, v, exps, total, out = saved
  scale = q.shape[-1] ** -0.5
  # p = exps / total: the division goes to d_out, which is smaller.
  d_scaled = (d_out.astype(jnp.float32) / total).astype(v.dtype)
  d_v = jnp.einsum("bhts,bhtk->bhsk", exps, d_scaled)
  d_p = jnp.einsum(
      "bhtk,bhsk->bhts", d_scaled, v, preferred_element_type=jnp.float32
  )
  mean = (d_scaled * out).astype(jnp.float32).sum(-1, keepdims=True)
  d_scores = (exps * (d_p - mean)).astype(q.dtype)
  d_q = jnp.einsum("bhts,bhsk->bhtk", d_scores, k) * scale
  d_k = jnp.einsum("bhts,bhtk->bhsk", d_scores, q) * scale
  return d_q, d_k, d_v, None


attention.defvjp(_attention_forward, _attention_backward)


def grouped_attention(
    q_BHTK: jax.Array, k_BGSK: jax.Array, v_BGSK: jax.Array, mask: jax.Array
) -> jax.Array:
  """`attention` in which H/G neighbouring heads of queries share keys.

  A group's queries stand below each other as if they were positions, so keys
  are neither repeated nor read more than once.
  """
  batch, num_heads, length, size = q_BHTK.shape
  groups = k_BGSK.shape[1]
  if groups == num_heads:
    return attention(q_BHTK, k_BGSK, v_BGSK, mask)
  per_group = num_heads // groups
  if mask.shape[1] > 1 or mask.shape[2] > 1:  # Else it holds for every query.
    rows, heads, _, keys = mask.shape
    heads = (1, 1) if heads == 1 else (groups, per_group)
    mask = mask.reshape(rows, *heads, -1, keys)
    mask = jnp.broadcast_to(mask, (rows, heads[0], per_group, length, keys))
    mask = mask.reshape(rows, heads[0], -1, keys)
  q = q_BHTK.reshape(batch, groups, -1, size)
  return attention(q, k_BGSK, v_BGSK, mask).reshape(q_BHTK.shape)


def causal_attention(
    q_BHTK: jax.Array,
    k_BGSK: jax.Array,
    v_BGSK: jax.Array,
    blocks: int = 4,
) -> jax.Array:
  """Attention in which position t sees positions up to t.

  S may be larger than T: the S - T keys in front are seen by all.

  Queries go in `blocks` groups, each against the keys that its last one sees:
  with 4, of the square of scores 5/8 are computed, not all to be masked. (More
  groups compute less and copy more of the keys.)
  """
  length = q_BHTK.shape[2]
  extra = k_BGSK.shape[2] - length
  size = max(-(-length // blocks), 16)
  outputs = []
  for start in range(0, length, size):
    end = min(start + size, length)
    seen = extra + end
    mask = jnp.arange(start, end)[:, None] + extra >= jnp.arange(seen)[None]
    outputs.append(
        grouped_attention(
            q_BHTK[:, :, start:end], k_BGSK[:, :, :seen], v_BGSK[:, :, :seen],
            mask[None, None],
        )
    )
  return jnp.concatenate(outputs, axis=2)


class Block(nn.Module):
  """Pre-norm attention and feed-forward, each with a residual connection.

  The release adds the raw x (`residual="raw"`); the paper prints the sum with
  LayerNorm(x) (section 3, `residual="normalised"`).
  """

  config: TransformerConfig

  @nn.compact
  def __call__(
      self,
      x_BTD: jax.Array,
      mask: jax.Array | None,
      dropout_key: jax.Array | None = None,
      cache: LayerCache | None = None,
      index: jax.Array | None = None,
      rotation: rotary.Rotation | None = None,
      extra: LayerCache | None = None,
  ) -> tuple[jax.Array, LayerCache | None]:
    c = self.config
    keys = (None, None)
    if dropout_key is not None:
      keys = jax.random.split(dropout_key)
    norm = make_norm(c, name="norm1")(x_BTD)
    kv_width = c.kv_heads * c.head_size
    widths = dict(query=c.d_model, key=kv_width, value=kv_width)
    projections = [
        Linear(width, ("embed", "heads"), c.biases, name=name)
        for name, width in widths.items()
    ]
    if c.scans_layers or cache is not None:
      q, k, v = (self._heads(project(norm)) for project in projections)
    else:
      q, k, v = map(self._heads, self._joined(projections, norm))
    if rotation is not None:
      q, k = (rotary.rotate(x, rotation, c.rotary_order) for x in (q, k))
    if extra is not None:
      k = jnp.concatenate([extra[0].astype(k.dtype), k], axis=2)
      v = jnp.concatenate([extra[1].astype(v.dtype), v], axis=2)
    if cache is not None:
      k = jax.lax.dynamic_update_slice_in_dim(cache[0], k, index, axis=2)
      v = jax.lax.dynamic_update_slice_in_dim(cache[1], v, index, axis=2)
      cache = (k, v)
    if mask is None:
      # On an accelerator smaller groups copy more than they save.
      blocks = -(-x_BTD.shape[1] // 256) if c.scans_layers else 4
      mixed = causal_attention(q, k, v, blocks)
    else:
      mixed = grouped_attention(q, k, v, mask)
    mixed = mixed.swapaxes(1, 2).reshape(x_BTD.shape)
    out = Linear(c.d_model, ("heads", "embed"), c.biases, name="output")(mixed)
    x_BTD = self._add(x_BTD, norm, dropout(out, c.dropout, keys[0]))

    norm = make_norm(c, name="norm2")(x_BTD)
    hidden = Linear(c.d_ff, ("mlp_embed", "mlp"), c.biases, name="up")(norm)
    if c.activation == "relu":
      hidden = jax.nn.relu(hidden)
    elif c.activation == "gelu_tanh":
      hidden = jax.nn.gelu(hidden, approximate=True)
    else:
      gate = Linear(
          c.d_ff, ("mlp_embed", "mlp"), c.biases, name="gate"
      )(norm)
      hidden = jax.nn.silu(gate) * hidden
    out = Linear(
        c.d_model, ("mlp", "mlp_embed"), c.biases, name="down"
    )(hidden)
    x_BTD = self._add(x_BTD, norm, dropout(out, c.dropout, keys[1]))
    return constrain(x_BTD), cache

  def _joined(self, projections, norm) -> list[jax.Array]:
    """One product for all `projections`, which is faster.

    Not where the kernels may be cut over devices, nor in a decoding loop, where
    putting them together would cost more than it saves.
    """
    parameters = [p.parameters(norm.shape[-1]) for p in projections]
    kernels, biases = zip(*parameters)
    kernel = jnp.concatenate(kernels, axis=-1)
    bias = None if biases[0] is None else jnp.concatenate(biases, axis=-1)
    y = linear(norm, kernel, bias)
    ends = np.cumsum([p.features for p in projections])
    return jnp.split(y, ends[:-1], axis=-1)

  def _heads(self, y: jax.Array) -> jax.Array:
    """[B, T, G*K] -> [B, G, T, K]: heads first, as batched products want it."""
    y = y.reshape(*y.shape[:2], -1, self.config.head_size)
    return y.swapaxes(1, 2)

  def _add(self, x, norm, out):
    return (x if self.config.residual == "raw" else norm) + out


def constrain(x_BTD: jax.Array) -> jax.Array:
  """Keeps activations split on the batch axis (no-op without axis rules)."""
  return nn.with_logical_constraint(
      x_BTD, ("batch", "length", "activation_embed")
  )
