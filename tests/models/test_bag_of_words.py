"""The words of a text without their order, by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax.models import bag_of_words
from ctrl_jax.models.config import TransformerConfig

BASE = TransformerConfig(
    vocab_size=5, d_model=8, d_ff=8, num_layers=1, num_heads=2, max_length=4,
    vocab_multiple=8,
)


def test_by_hand():
  rng = np.random.default_rng(0)
  params = {
      "kernel": rng.normal(size=(3, 8)).astype(np.float32),
      "bias": rng.normal(size=8).astype(np.float32),
      "frequency": np.array([0.5, 0.2, 0.2, 0.1, 0, 0, 0, 0], np.float32),
  }
  z = rng.normal(size=(2, 3)).astype(np.float32)
  labels = np.array([[0, 4, 4, 1], [2, 2, 3, 0]])
  weights = np.array([[0, 1, 1, 1], [1, 1, 0, 0]], np.float32)
  given = jnp.asarray(z), jnp.asarray(labels), jnp.asarray(weights)
  arrays = jax.tree.map(jnp.asarray, params)
  found, smooth = (
      bag_of_words.nll(BASE, arrays, *given, smoothing)
      for smoothing in (0.0, 0.1)
  )
  for i in range(2):
    # Rows of padding are no words.
    logits = (z[i] @ params["kernel"] + params["bias"])[:5].astype(np.float64)
    p = np.exp(logits) / np.exp(logits).sum()
    expected = -(np.log(p[labels[i]]) * weights[i]).sum()
    np.testing.assert_allclose(found[i], expected, rtol=1e-5)
    counts = 0.1 / (0.1 + params["frequency"][labels[i]])
    expected = -(np.log(p[labels[i]]) * weights[i] * counts).sum()
    np.testing.assert_allclose(smooth[i], expected, rtol=1e-5)
  # Another order, the same words.
  turned = bag_of_words.nll(
      BASE, params, jnp.asarray(z), jnp.asarray(labels[:, ::-1]),
      jnp.asarray(weights[:, ::-1]),
  )
  np.testing.assert_allclose(turned, found, rtol=1e-6)


def test_sizes():
  boxed = bag_of_words.init_boxed(BASE, 3, jax.random.key(0))
  assert {k: v.value.shape for k, v in boxed.items()} == {
      "kernel": (3, 8), "bias": (8,), "frequency": (8,),
  }
