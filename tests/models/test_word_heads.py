import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.feature_extraction.text import TfidfTransformer

from ctrl_jax.models import word_heads
from ctrl_jax.models.config import TransformerConfig

BASE = TransformerConfig(
    vocab_size=7, d_model=16, d_ff=32, num_layers=1, num_heads=2, max_length=8,
    vocab_multiple=4,
)
IDS = jnp.array([[1, 5, 1, 1, 2, 3], [4, 4, 0, 0, 0, 0], [6, 6, 6, 6, 6, 6]])
LENGTH = jnp.array([5, 2, 0])


def test_vectors_are_scikit_learns():
  """Sublinear counts of length 1, as its TF-IDF without the IDF makes."""
  counts = np.array([[0, 3, 1, 0, 0, 1, 0, 0], [0, 0, 0, 0, 2, 0, 0, 0]])
  expected = TfidfTransformer(sublinear_tf=True, use_idf=False).fit_transform(
      counts
  ).toarray()
  found = word_heads.vectors(jnp.ones(8), IDS, LENGTH)
  np.testing.assert_allclose(found[:2], expected, rtol=1e-6)
  assert not found[2].any()  # An empty text.


def test_weights_come_before_the_length():
  weight = jnp.array([1.0, 0.5, 1.0, 1.0, 0.1, 1.0, 1.0, 1.0])
  found = word_heads.vectors(weight, IDS, LENGTH)
  raw = np.array([0, 0.5 * (1 + np.log(3)), 1, 0, 0, 1, 0, 0])
  np.testing.assert_allclose(found[0], raw / np.linalg.norm(raw), rtol=1e-6)
  np.testing.assert_allclose(found[1], np.eye(8)[4], rtol=1e-6)


def test_the_kernel_trains_and_the_weights_do_not():
  params = nn.unbox(word_heads.init_boxed(BASE, 3))
  assert params["kernel"].shape == (8, 3)
  assert not word_heads.mean(params, IDS, LENGTH).any()
  gradient = jax.grad(
      lambda p: word_heads.mean(p, IDS, LENGTH)[:, 0].sum()
  )(params | {"kernel": params["kernel"] + 1.0})
  x = word_heads.vectors(params["weight"], IDS, LENGTH)
  np.testing.assert_allclose(gradient["kernel"][:, 0], x.sum(0), rtol=1e-6)
  assert not gradient["weight"].any() and not gradient["kernel"][:, 1].any()
