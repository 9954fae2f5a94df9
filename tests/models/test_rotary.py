"""Rotary positions against complex numbers in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax.models import rotary
from ctrl_jax.models.config import TransformerConfig

CONFIG = TransformerConfig(
    vocab_size=9, d_model=16, d_ff=8, num_layers=1, num_heads=2,
    max_length=4096, positions="rotary", rotary_theta=500.0,
)


def turned(x, positions, order):
  turn = rotary.rotation(CONFIG, jnp.asarray(positions))
  return np.asarray(rotary.rotate(jnp.asarray(x), turn, order))


def test_pairs_are_complex_numbers_turned():
  rng = np.random.default_rng(0)
  x = rng.normal(size=(2, 3, 4, 8)).astype(np.float32)
  positions = np.array([[0, 1, 2, 3], [7, 8, 9, 4000]])
  angles = positions[:, None, :, None] * 500.0 ** (-2 * np.arange(4) / 8)
  z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
  expected = np.stack([z.real, z.imag], -1).reshape(x.shape)
  np.testing.assert_allclose(turned(x, positions, "pairs"), expected, atol=5e-4)
  # Halves are the same of permuted elements.
  order = [0, 2, 4, 6, 1, 3, 5, 7]
  np.testing.assert_array_equal(
      turned(x[..., order], positions, "halves"),
      turned(x, positions, "pairs")[..., order],
  )


@pytest.mark.parametrize("order", ["halves", "pairs"])
def test_products_depend_on_distance_alone(order):
  q, k = jax.random.normal(jax.random.key(0), (2, 1, 1, 1, 8))
  products = [
      (turned(q, [[p + 5]], order) * turned(k, [[p]], order)).sum()
      for p in (0, 3, 90)
  ]
  np.testing.assert_allclose(products, products[0], rtol=1e-4)
  far = (turned(q, [[9]], order) * turned(k, [[0]], order)).sum()
  assert abs(far - products[0]) > 1e-3


def test_dtype_is_kept():
  turn = rotary.rotation(CONFIG, jnp.zeros((1, 2), jnp.int32))
  x = jnp.ones((1, 1, 2, 8), jnp.bfloat16)
  assert rotary.rotate(x, turn, "halves").dtype == jnp.bfloat16


def test_rows_of_pairs_as_halves():
  rng = np.random.default_rng(0)
  kernel = rng.normal(size=(16, 5)).astype(np.float32)  # Two heads of 8.
  x = rng.normal(size=(1, 3, 5)).astype(np.float32)
  heads = lambda w: (x @ w.T).reshape(1, 3, 2, 8).swapaxes(1, 2)
  q = heads(rotary.halves_from_pairs(kernel, 2))
  positions = [[4, 5, 6]]
  pairs = turned(heads(kernel), positions, "pairs")
  halves = turned(q, positions, "halves")
  scores = lambda y: np.einsum("bhtk,bhsk->bhts", y, y)
  np.testing.assert_allclose(scores(halves), scores(pairs), atol=1e-4)
