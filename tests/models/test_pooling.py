import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from ctrl_jax.models import pooling

X = jax.random.normal(jax.random.key(0), (3, 5, 8))
QUERY = jax.random.normal(jax.random.key(1), (8,))
LENGTHS = jnp.array([5, 2, 1])


def by_hand(kind, x, heads):
  """One text, float64, without padding."""
  x, query = np.asarray(x, np.float64), np.asarray(QUERY, np.float64)
  if kind == "gelu":
    s = x @ query
    return special.softmax(0.5 * s * (1 + special.erf(s / np.sqrt(2)))) @ x
  parts = []
  for h in range(heads):
    own = slice(h * 8 // heads, (h + 1) * 8 // heads)
    weights = special.softmax(x[:, own] @ query[own] / np.sqrt(8 // heads))
    parts.append(weights @ x[:, own])
  return np.concatenate(parts)


@pytest.mark.parametrize("kind", pooling.KINDS)
def test_weighted_mean_of_the_real_vectors(kind):
  found = pooling.pool(kind, QUERY, X, LENGTHS, 2)
  for row, length in enumerate([5, 2, 1]):
    np.testing.assert_allclose(
        found[row], by_hand(kind, X[row, :length], 2), rtol=1e-5, atol=1e-6
    )
  np.testing.assert_allclose(found[2], X[2, 0], rtol=1e-6)


@pytest.mark.parametrize("kind", pooling.KINDS)
def test_padding_and_empty_rows(kind):
  found = pooling.pool(kind, QUERY, X, LENGTHS, 2)
  other = pooling.pool(kind, QUERY, X.at[1, 2:].set(99.0), LENGTHS, 2)
  np.testing.assert_array_equal(found[1], other[1])
  empty = pooling.pool(kind, QUERY, X, 0 * LENGTHS, 2)
  assert np.isfinite(empty).all()
