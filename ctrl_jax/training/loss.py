"""Cross-entropy over a large vocabulary, in chunks, gradient in the forward.

At CTRL's size the logits of a batch are 258 GB. Here they exist for a few
positions at a time: each chunk computes its logits, its loss and, when the
loss is differentiated, its gradients right away (a custom VJP), so that the
backward pass only scales them. Nothing is computed twice, and a chunk stays in
the cache, so this is also faster than full logits.

The logits of a position are

  sum_i hidden_i @ table_i^T  +  bias  +  row_logits

with one (hidden, table) pair for a plain language model, two for a frozen
model plus an auxiliary one, and row_logits [B, V] for a vector of logits that
holds for a whole sequence.
"""

import dataclasses
import functools
from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Trainable:
  """Which inputs of the loss get a gradient; the others get none, and none of
  the work for it is done."""

  hiddens: tuple[bool, ...] = (True,)
  tables: tuple[bool, ...] = (True,)
  bias: bool = True
  row_logits: bool = True


@dataclasses.dataclass(frozen=True)
class _Static:
  vocab_size: int
  chunk: int  # Positions (of T) a chunk.
  trainable: Trainable


def cross_entropy(
    hiddens: Sequence[jax.Array],
    tables: Sequence[jax.Array],
    bias: jax.Array | None,
    row_logits: jax.Array | None,
    labels: jax.Array,
    weights: jax.Array,
    *,
    vocab_size: int,
    chunk_tokens: int = 256,
    trainable: Trainable | None = None,
) -> tuple[jax.Array, jax.Array]:
  """Weighted sum of negative log-likelihoods.

  Args:
    hiddens: hidden states, each [B, T, D_i], in the compute dtype.
    tables: one table for each, [V, D_i]; rows from `vocab_size` on are padding
      that no probability goes to. None: the hidden states are logits already,
      [B, T, V].
    bias: [V] or None.
    row_logits: float32 [B, V], added at every position of a row, or None.
    labels: int32 [B, T].
    weights: float32 [B, T]; 0 leaves a position out.
    vocab_size: real rows of the tables.
    chunk_tokens: tokens whose logits exist at one time, B at least.
    trainable: what to differentiate; all by default.

  Returns:
    The sum over positions of weight * -log p(label), float32 scalar,
    differentiable; and -log p(label) [B, T] float32, unweighted, for metrics
    (no gradient flows through it).
  """
  if trainable is None:
    trainable = Trainable((True,) * len(hiddens), (True,) * len(tables))
  batch, length = labels.shape
  chunk = min(length, max(1, chunk_tokens // batch))
  static = _Static(vocab_size, chunk, trainable)
  arrays = (tuple(hiddens), tuple(tables), bias, row_logits)
  return _cross_entropy(static, arrays, labels, weights.astype(jnp.float32))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _cross_entropy(static, arrays, labels, weights):
  outputs, _ = _scan_chunks(static, arrays, labels, weights, False)
  return outputs


def _forward(static, arrays, labels, weights):
  return _scan_chunks(static, arrays, labels, weights, True)


def _backward(static, gradients, cotangents):
  del static
  scale = cotangents[0]
  scaled = jax.tree.map(lambda g: (g * scale).astype(g.dtype), gradients)
  return scaled, None, None


_cross_entropy.defvjp(_forward, _backward)


def _scan_chunks(static, arrays, labels, weights, with_gradient):
  """Runs `_chunk` over slices of T; returns ((sum, nll_BT), gradients)."""
  hiddens, tables, bias, row_logits = arrays
  length = labels.shape[1]
  padding = -length % static.chunk

  def cut(x):
    """[B, T, ...] -> [number of chunks, B, chunk, ...]."""
    x = jnp.pad(x, ((0, 0), (0, padding)) + ((0, 0),) * (x.ndim - 2))
    x = x.reshape(x.shape[0], -1, static.chunk, *x.shape[2:])
    return x.swapaxes(0, 1)

  def join(x):
    """The inverse of `cut`."""
    x = x.swapaxes(0, 1)
    return x.reshape(x.shape[0], -1, *x.shape[3:])[:, :length]

  def body(sums, inputs):
    return _chunk(static, (tables, bias, row_logits), sums, inputs,
                  with_gradient)

  sums = None
  if with_gradient:
    t = static.trainable

    def zeros(x, on):
      on = on and x is not None
      return jnp.zeros(x.shape, jnp.float32) if on else None

    sums = (
        # Of the tables transposed, [D, V]: the small operand of the product is
        # the one to transpose, which XLA on CPU is a fifth faster at.
        tuple(
            zeros(None if x is None else x.T, on)
            for x, on in zip(tables, t.tables)
        ),
        zeros(bias, t.bias),
        zeros(row_logits, t.row_logits),
    )
  inputs = jax.tree.map(cut, (hiddens, labels, weights))
  sums, (nll, d_hiddens) = jax.lax.scan(body, sums, inputs)
  nll_BT = join(nll)
  outputs = (jnp.sum(nll_BT * weights), nll_BT)
  if not with_gradient:
    return outputs, None
  d_tables, d_bias, d_row = sums
  gradients = (
      jax.tree.map(join, d_hiddens),
      tuple(None if d is None else d.T.astype(x.dtype)
            for d, x in zip(d_tables, tables)),
      d_bias,
      d_row,
  )
  return outputs, gradients


def _logits(hidden, table):
  """float32 [n, V] of [n, D]; without a table they are logits already."""
  if table is None:
    return hidden.astype(jnp.float32)
  return jnp.einsum(
      "nd,vd->nv", hidden, table, preferred_element_type=jnp.float32
  )


def _to_hidden(d_logits, table):
  """The gradient of `_logits` to its hidden states."""
  return d_logits if table is None else d_logits @ table


def _gather(x_ND):
  """Cuts [B*t, D] only over mesh axes that do not cut the vocabulary."""
  return nn.with_logical_constraint(x_ND, ("loss_batch", None))


def _chunk(static, shared, sums, inputs, with_gradient):
  """Loss (and gradients) of [B, t] positions; `sums` accumulates the shared."""
  tables, bias, row_logits = shared
  hiddens, labels, weights = inputs
  shape = labels.shape
  # On the axes that cut the vocabulary, every device needs all positions.
  flat = [_gather(h.reshape(-1, h.shape[-1])) for h in hiddens]
  label, weight = (_gather(x.reshape(-1, 1)) for x in (labels, weights))
  cast = [
      None if w is None else w.astype(h.dtype) for h, w in zip(flat, tables)
  ]
  logits = sum(map(_logits, flat, cast))
  if bias is not None:
    logits = logits + bias.astype(jnp.float32)[None]
  if row_logits is not None:
    rows = jnp.broadcast_to(
        row_logits[:, None], (*shape, row_logits.shape[-1])
    )
    logits = logits + rows.reshape(logits.shape)
  columns = jnp.arange(logits.shape[-1])[None]
  if logits.shape[-1] > static.vocab_size:
    logits = jnp.where(columns < static.vocab_size, logits, -jnp.inf)
  log_z = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
  nll = (log_z - jnp.take_along_axis(logits, label, axis=-1)).reshape(shape)
  if not with_gradient:
    return None, (nll, None)

  p = jnp.exp(logits - log_z)
  d_logits = jnp.where(columns == label, p - 1, p) * weight
  t = static.trainable
  d_hiddens = tuple(
      _to_hidden(d_logits.astype(h.dtype), w).reshape(*shape, -1) if on
      else None
      for h, w, on in zip(flat, cast, t.hiddens)
  )
  d_tables, d_bias, d_row = sums
  d_tables = tuple(
      None if s is None else s + jnp.dot(
          jax.lax.optimization_barrier(h.T), d_logits.astype(h.dtype),
          preferred_element_type=jnp.float32)
      for s, h in zip(d_tables, flat)
  )
  if d_bias is not None:
    d_bias = d_bias + d_logits.sum(0)
  if d_row is not None:
    d_row = d_row + d_logits.reshape(*shape, -1).sum(1)
  return (d_tables, d_bias, d_row), (nll, d_hiddens)
