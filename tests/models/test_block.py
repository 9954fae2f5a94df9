import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax.models import block, masks


def test_dropout_rate_scale_and_off():
  x = jnp.ones((256, 1000))
  y = block.dropout(x, 0.1, jax.random.key(0))
  assert abs(float((y == 0).mean()) - 0.1) < 0.003
  np.testing.assert_allclose(y[y != 0], 1 / 0.9, rtol=1e-4)
  assert block.dropout(x, 0.1, None) is x
  odd = block.dropout(jnp.ones((100, 333)), 0.5, jax.random.key(0))
  assert abs(float((odd == 0).mean()) - 0.5) < 0.02
  # Masks of neighbours, which share a random word, are independent.
  mask = np.asarray(y == 0)
  both = (mask[:, 0::2] & mask[:, 1::2]).mean()
  assert abs(both - 0.01) < 0.001


@pytest.mark.parametrize("length", [1, 15, 40, 130])
def test_causal_attention_equals_the_masked_square(length):
  q, k, v = jax.random.normal(jax.random.key(0), (3, 2, 3, length, 4))
  np.testing.assert_allclose(
      block.causal_attention(q, k, v),
      block.attention(q, k, v, masks.causal_mask(length)),
      atol=1e-6,
  )


def plain_attention(q, k, v, mask):
  scores = jnp.einsum("bhtk,bhsk->bhts", q, k) / jnp.sqrt(q.shape[-1])
  weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf))
  return jnp.einsum("bhts,bhsk->bhtk", weights, v)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_and_its_written_out_gradient_equal_autodiff(causal):
  q, k, v, weights = jax.random.normal(jax.random.key(0), (4, 2, 3, 40, 4))
  mask = masks.causal_mask(40)
  ours = block.causal_attention if causal else (
      lambda q, k, v: block.attention(q, k, v, mask)
  )
  f = lambda attend: jax.value_and_grad(
      lambda q, k, v: (attend(q, k, v) * weights).sum(), argnums=(0, 1, 2)
  )(3 * q, k, v)
  value, gradients = f(ours)
  expected, wanted = f(lambda q, k, v: plain_attention(q, k, v, mask))
  np.testing.assert_allclose(value, expected, rtol=1e-5)
  for a, b in zip(gradients, wanted):
    assert np.linalg.norm(a - b) / np.linalg.norm(b) < 2e-6


def test_attention_survives_large_scores():
  q, k, v = 300 * jax.random.normal(jax.random.key(0), (3, 1, 1, 20, 4))
  gradients = jax.grad(
      lambda q, k, v: block.causal_attention(q, k, v).sum(), argnums=(0, 1, 2)
  )(q, k, v)
  assert all(np.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", [(1, 1, 5, 7), (3, 1, 1, 7), (3, 6, 5, 7),
                                   (1, 6, 1, 7)])
def test_grouped_attention_equals_repeated_keys(groups, shape):
  keys = jax.random.split(jax.random.key(0), 5)
  q, weights = jax.random.normal(keys[0], (2, 3, 6, 5, 4))
  k, v = jax.random.normal(keys[1], (2, 3, groups, 7, 4))
  mask = jax.random.bernoulli(keys[2], 0.6, shape).at[..., 0].set(True)

  def repeated(q, k, v):
    k, v = (jnp.repeat(x, 6 // groups, 1) for x in (k, v))
    return (plain_attention(q, k, v, mask) * weights).sum()

  def ours(q, k, v):
    return (block.grouped_attention(q, k, v, mask) * weights).sum()

  for a, b in zip(
      jax.tree.leaves(jax.value_and_grad(ours, (0, 1, 2))(q, k, v)),
      jax.tree.leaves(jax.value_and_grad(repeated, (0, 1, 2))(q, k, v)),
  ):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_rms_norm_is_its_formula():
  x = 3 + jax.random.normal(jax.random.key(0), (2, 3, 4))
  scale = jnp.arange(1.0, 5.0)
  y = block.RMSNorm(0.1).apply({"params": {"scale": scale}}, x)
  expected = x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 0.1)
  np.testing.assert_allclose(y, expected * scale[None, None], rtol=1e-5)
  half = block.RMSNorm(0.1).apply(
      {"params": {"scale": scale}}, x.astype(jnp.bfloat16)
  )
  assert half.dtype == jnp.bfloat16


def test_a_linear_layer_is_its_formula():
  layer = block.Linear(5, ("embed", "mlp"))
  x = jax.random.normal(jax.random.key(0), (2, 3, 4))
  params = layer.init(jax.random.key(1), x)["params"]
  kernel, bias = params["kernel"].value, params["bias"].value + 1
  y = layer.apply({"params": {"kernel": kernel, "bias": bias}}, x)
  np.testing.assert_allclose(y, x @ kernel + 1, rtol=1e-5)
