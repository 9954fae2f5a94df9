"""Posterior heads that begin as the principal components of texts."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.decomposition import PCA

from ctrl_jax import errors
from ctrl_jax.models import gaussian
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae_config import CVAEConfig
from ctrl_jax.tasks import cvae_init
from ctrl_jax.tasks.cvae import CVAETask

BASE = TransformerConfig(
    vocab_size=31, d_model=16, d_ff=32, num_layers=2, num_heads=2, max_length=8,
    dropout=0.0, dtype="float32", vocab_multiple=8,
)
CONFIG = CVAEConfig(BASE, num_layers=1, latent_size=4)


def batch(seed, size=40):
  rng = np.random.default_rng(seed)
  place = np.arange(9)[None]
  ends = rng.integers(3, 10, size)[:, None]
  ends[0] = 0  # A row without a target.
  target = (place >= 2) & (place < ends)
  tokens = np.where(place < ends, rng.integers(0, 31, (size, 9)), 0)
  return {
      "tokens": jnp.asarray(tokens, jnp.int32),
      "weights": jnp.asarray(target, jnp.uint8),
  }


@pytest.mark.parametrize("prior", ["learned", "standard"])
def test_they_tell_texts_apart(prior):
  task = CVAETask(
      dataclasses.replace(CONFIG, prior=prior), init_heads="components"
  )
  params = nn.unbox(task.init(jax.random.key(0)))
  batches = [batch(i) for i in range(5)]
  begun = task.begin_with_texts(params, batches)
  real = [np.asarray(b["weights"]).any(1) for b in batches]
  found = [task.distributions(begun, b) for b in batches]
  means = np.concatenate([q.mean[r] for (q, _), r in zip(found, real)])
  np.testing.assert_allclose(means.mean(0), 0.0, atol=2e-4)
  np.testing.assert_allclose(np.cov(means.T, bias=True), np.eye(4), atol=5e-3)
  for posterior, other in found:
    np.testing.assert_allclose(
        np.exp(posterior.log_variance), cvae_init.VARIANCE, rtol=2e-2
    )
    np.testing.assert_array_equal(other.mean, 0.0)
    np.testing.assert_array_equal(other.log_variance, 0.0)
  # By hand: half of variance + mean^2 - 1 - log variance, a dimension.
  kl = np.concatenate(
      [gaussian.kl(*f).sum(1)[r] for f, r in zip(found, real)]
  ).mean()
  v = cvae_init.VARIANCE
  assert kl == pytest.approx(4 * (v - np.log(v)) / 2, rel=0.02)
  # All else is as it was.
  old, new = (
      {k: x for k, x in jax.tree_util.tree_leaves_with_path(tree)}
      for tree in (params, begun)
  )
  changed = {
      jax.tree_util.keystr(k, simple=True, separator="/")
      for k in old if not np.array_equal(old[k], new[k])
  }
  assert {name.split("/")[1] for name in changed} == (
      {"posterior", "prior"} if prior == "learned" else {"posterior"}
  )


def test_heads_are_scikit_learns_components():
  rng = np.random.default_rng(0)
  x = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6)) + 3
  sums = cvae_init.Moments(200.0, x.sum(0), x.T @ x, None)
  found = cvae_init.heads(sums, 3)["mean"]
  ours = x @ found["kernel"] + found["bias"]
  theirs = PCA(3, whiten=True).fit_transform(x) * np.sqrt(200 / 199)
  signs = np.sign((ours * theirs).sum(0))
  np.testing.assert_allclose(ours * signs, theirs, rtol=1e-6, atol=1e-8)


def test_fewer_texts_than_components():
  x = np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
  sums = cvae_init.Moments(2.0, x.sum(0), x.T @ x, None)
  found = cvae_init.heads(sums, 5)
  means = x @ found["mean"]["kernel"] + found["mean"]["bias"]
  np.testing.assert_allclose(np.abs(means), [[1, 0, 0, 0, 0]] * 2, atol=1e-9)
  assert means[0, 0] == -means[1, 0]


def test_how_frequent_words_are():
  config = dataclasses.replace(CONFIG, predicts_words=True)
  task = CVAETask(config, bag_of_words=1.0, word_smoothing=0.01)
  assert task.reads_texts_first == cvae_init.TEXTS
  # Only who weighs words by it wants to know.
  assert CVAETask(config, bag_of_words=1.0).reads_texts_first == 0
  params = nn.unbox(task.init(jax.random.key(0)))
  batches = [batch(i) for i in range(3)]
  begun = task.begin_with_texts(params, batches)
  targets = np.concatenate(
      [np.asarray(b["tokens"])[np.asarray(b["weights"]) > 0] for b in batches]
  )
  own = begun["cvae"].pop("bag_of_words")
  np.testing.assert_allclose(
      own["frequency"], np.bincount(targets, minlength=32) / targets.size,
      rtol=1e-6,
  )
  # No gradient reaches them; random heads stay.
  gradient = jax.grad(
      lambda p: task.loss(p, batches[0], jax.random.key(1), jnp.int32(0))[0]
  )(begun | {"cvae": begun["cvae"] | {"bag_of_words": own}})
  assert not np.any(gradient["cvae"]["bag_of_words"]["frequency"])
  del params["cvae"]["bag_of_words"]
  jax.tree.map(np.testing.assert_array_equal, params, begun)


def test_random_heads_want_no_texts():
  assert CVAETask(CONFIG).reads_texts_first == 0
  with pytest.raises(errors.UserError, match="cvae.init_heads='pca'"):
    CVAETask(CONFIG, init_heads="pca")
