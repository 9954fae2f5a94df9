import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax.training import loss

B, T, D, V, V_PADDED = 3, 10, 8, 61, 64


def arrays(two_heads=False, bias=True, rows=False):
  keys = iter(jax.random.split(jax.random.key(0), 8))
  normal = lambda *shape: jax.random.normal(next(keys), shape)
  hiddens = (normal(B, T, D),) + ((normal(B, T, 5),) if two_heads else ())
  tables = (normal(V_PADDED, D),) + (
      (normal(V_PADDED, 5),) if two_heads else ()
  )
  labels = jax.random.randint(next(keys), (B, T), 0, V)
  weights = jax.random.randint(next(keys), (B, T), 0, 3).astype(jnp.float32)
  return (
      hiddens,
      tables,
      normal(V_PADDED) if bias else None,
      normal(B, V_PADDED) if rows else None,
  ), labels, weights


def plain(inputs, labels, weights):
  """Full logits, log-softmax, autodiff."""
  hiddens, tables, bias, rows = inputs
  logits = sum(h @ w.T for h, w in zip(hiddens, tables))
  if bias is not None:
    logits = logits + bias[None, None]
  if rows is not None:
    logits = logits + rows[:, None]
  log_p = jax.nn.log_softmax(logits[..., :V])
  picked = jnp.take_along_axis(log_p, labels[..., None], -1)[..., 0]
  return -(picked * weights).sum()


def chunked(inputs, labels, weights, chunk_tokens=6, trainable=None):
  return loss.cross_entropy(
      *inputs, labels, weights, vocab_size=V, chunk_tokens=chunk_tokens,
      trainable=trainable,
  )[0]


@pytest.mark.parametrize("two_heads, bias, rows",
                         itertools.product([False, True], repeat=3))
def test_loss_and_gradients_equal_the_plain_ones(two_heads, bias, rows):
  inputs, labels, weights = arrays(two_heads, bias, rows)
  value, gradients = jax.value_and_grad(chunked)(inputs, labels, weights)
  expected, wanted = jax.value_and_grad(plain)(inputs, labels, weights)
  np.testing.assert_allclose(value, expected, rtol=1e-6)
  assert jax.tree.structure(gradients) == jax.tree.structure(wanted)
  for a, b in zip(jax.tree.leaves(gradients), jax.tree.leaves(wanted)):
    error = np.linalg.norm(a - b) / np.linalg.norm(b)
    assert error < 1e-6


@pytest.mark.parametrize("chunk_tokens", [1, 3, 7, 12, 30, 10_000])
def test_any_chunk_gives_the_same(chunk_tokens):
  inputs, labels, weights = arrays()
  np.testing.assert_allclose(
      chunked(inputs, labels, weights, chunk_tokens),
      plain(inputs, labels, weights), rtol=1e-6,
  )


def test_nll_a_token_and_no_gradient_through_it():
  inputs, labels, weights = arrays()
  f = lambda inputs: loss.cross_entropy(
      *inputs, labels, weights, vocab_size=V, chunk_tokens=6
  )
  total, nll = f(inputs)
  assert nll.shape == (B, T)
  np.testing.assert_allclose((nll * weights).sum(), total, rtol=1e-6)
  gradient = jax.grad(lambda inputs: f(inputs)[1].sum())(inputs)
  assert all((g == 0).all() for g in jax.tree.leaves(gradient))


def test_gradient_scales_with_the_cotangent():
  inputs, labels, weights = arrays()
  one = jax.grad(chunked)(inputs, labels, weights)
  three = jax.grad(lambda i: 3 * chunked(i, labels, weights))(inputs)
  jax.tree.map(
      lambda a, b: np.testing.assert_allclose(3 * a, b, rtol=1e-5, atol=1e-6),
      one, three,
  )


def products(f, *args):
  """Numbers of matrix products in the compiled program."""
  text = str(jax.make_jaxpr(f)(*args))
  return text.count("dot_general[")


def test_frozen_tables_and_evaluation_do_no_work_for_gradients():
  inputs, labels, weights = arrays()
  frozen = loss.Trainable((True,), (False,), False)
  gradient = jax.grad(chunked)
  assert products(chunked, inputs, labels, weights) == 1
  assert products(gradient, inputs, labels, weights) == 3
  f = lambda i: chunked(i, labels, weights, trainable=frozen)
  assert products(jax.grad(f), inputs) == 2
  g = jax.grad(f)(inputs)
  assert (g[1][0] == 0).all() and (g[2] == 0).all()
  wanted = gradient(inputs, labels, weights)[0][0]
  np.testing.assert_allclose(g[0][0], wanted, rtol=1e-5, atol=1e-6)


def test_no_buffer_of_all_tokens_times_vocabulary():
  labels = jnp.zeros((4, 64), jnp.int32)
  weights = jnp.ones((4, 64))
  hidden, table = jnp.ones((4, 64, 8)), jnp.ones((501, 8))

  def f(hidden, table):
    return loss.cross_entropy(
        (hidden,), (table,), None, None, labels, weights, vocab_size=501,
        chunk_tokens=32,
    )[0]

  text = jax.jit(jax.grad(f, argnums=(0, 1))).lower(hidden, table).compile()
  shapes = re.findall(r"f32\[([\d,]+)\]", text.as_text())
  sizes = [np.prod(list(map(int, s.split(",")))) for s in shapes]
  assert 32 * 501 in sizes  # One chunk's logits.
  assert max(sizes) < 4 * 64 * 501
  assert max(sizes) <= 2 * 32 * 501


def test_weights_of_zero_do_not_see_their_labels():
  inputs, labels, weights = arrays()
  other = jnp.where(weights == 0, (labels + 1) % V, labels)
  assert (other != labels).any()
  np.testing.assert_array_equal(
      chunked(inputs, labels, weights), chunked(inputs, other, weights)
  )


def test_large_logits_stay_finite():
  inputs, labels, weights = arrays()
  hiddens, tables, bias, rows = inputs
  inputs = (tuple(1e3 * h for h in hiddens), tables, bias, rows)
  value, gradients = jax.value_and_grad(chunked)(inputs, labels, weights)
  assert np.isfinite(value)
  assert all(np.isfinite(g).all() for g in jax.tree.leaves(gradients))
