import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import special, stats

from ctrl_jax import errors
from ctrl_jax.evaluation import latent
from ctrl_jax.models import gaussian
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae import CVAEConfig
from ctrl_jax.tasks.cvae import CVAETask
from ctrl_jax.training import step as step_lib


def linear_gaussian(samples, texts=2000, seed=0):
  """Here z ~ N(0, 1), y ~ N(z, 1), so y ~ N(0, 2); and a posterior that is off.

  Returns nll, log_prior, log_posterior [S, N], KL [N] and -log p(y) [N].
  """
  rng = np.random.default_rng(seed)
  y = rng.normal(0, math.sqrt(2), texts)
  mean, deviation = 0.4 * y, 0.9
  z = mean[None] + deviation * rng.normal(size=(samples, texts))
  kl = 0.5 * (mean**2 + deviation**2 - 1 - 2 * math.log(deviation))
  return (
      -stats.norm.logpdf(y[None], z, 1),
      stats.norm.logpdf(z),
      stats.norm.logpdf(z, mean[None], deviation),
      kl,
      -stats.norm.logpdf(y, 0, math.sqrt(2)),
  )


def test_bounds_are_in_order_and_tighten():
  nll, log_prior, log_posterior, kl, exact = linear_gaussian(200)
  elbo = latent.negative_elbo(nll, kl).mean()
  of = lambda s: latent.importance_weighted_nll(
      nll[:s], log_prior[:s], log_posterior[:s]
  ).mean()
  one, ten, all_ = of(1), of(10), of(200)
  assert one > ten > all_ > exact.mean() - 0.01
  np.testing.assert_allclose(one, elbo, atol=0.05)  # In expectation the same.
  np.testing.assert_allclose(all_, exact.mean(), atol=0.01)


def test_prior_samples_bound_the_same_looser():
  nll, log_prior, log_posterior, _, exact = linear_gaussian(20)
  z = np.random.default_rng(1).normal(size=nll.shape)
  y = np.random.default_rng(0).normal(0, math.sqrt(2), nll.shape[1])
  prior = latent.prior_sample_nll(-stats.norm.logpdf(y[None], z, 1)).mean()
  weighted = latent.importance_weighted_nll(nll, log_prior, log_posterior)
  assert prior > weighted.mean() > exact.mean() - 0.02
  np.testing.assert_allclose(
      latent.prior_sample_nll(np.log([[2.0], [4.0]])),
      [-math.log((1 / 2 + 1 / 4) / 2)],
  )


def test_weights_of_a_constant_likelihood_average_to_it():
  """A far better bound than the ELBO: here p(y|z) does not depend on z."""
  rng = np.random.default_rng(0)
  z = 0.2 + 0.7 * rng.normal(size=(4000, 1))
  found = latent.importance_weighted_nll(
      np.full_like(z, 3.0), stats.norm.logpdf(z), stats.norm.logpdf(z, 0.2, 0.7)
  )
  np.testing.assert_allclose(found, [3.0], atol=0.1)


def test_information_of_separated_and_of_equal_posteriors():
  separated = 100.0 * np.arange(16)[:, None] + np.zeros((16, 3))
  z = separated + np.random.default_rng(0).normal(size=(16, 3))
  found = latent.mutual_information(separated, np.zeros((16, 3)), z)
  np.testing.assert_allclose(found.nats, math.log(16), rtol=1e-6)
  assert found.bound == math.log(16)
  same = latent.mutual_information(0 * separated, np.zeros((16, 3)), 0 * z)
  np.testing.assert_allclose(same.nats, 0, atol=1e-9)


def test_information_is_at_most_log_n_and_as_the_densities_say():
  rng = np.random.default_rng(0)
  mean, log_variance = rng.normal(size=(2, 8, 4)) * 3
  z = mean + np.exp(log_variance / 2) * rng.normal(size=(8, 4))
  found = latent.mutual_information(mean, log_variance, z)
  density = stats.norm.logpdf(
      z[:, None], mean[None], np.exp(log_variance / 2)[None]
  ).sum(-1)
  expected = np.diagonal(density) - special.logsumexp(density, 1) + math.log(8)
  np.testing.assert_allclose(found.nats, expected.mean(), rtol=1e-6)
  assert found.nats <= math.log(8)


def test_active_units_by_hand():
  prompt = np.linspace(-1, 1, 50)[:, None] * [[1.0, 1.0, 0.0]]
  own = np.linspace(-1, 1, 50)[:, None] * [[0.0, 1.0, 0.05]]
  assert latent.active_units(prompt + own) == 2
  assert latent.active_units(prompt + own, prompt) == 1
  assert latent.active_units(prompt + own, prompt, threshold=1e-4) == 2


def test_probes_find_what_is_there_and_nothing_else():
  rng = np.random.default_rng(0)
  labels = rng.integers(0, 3, 300)
  x = np.eye(3)[labels] * 4 + rng.normal(size=(300, 3)) * 0.3
  parts = x[:200], labels[:200], x[200:], labels[200:]
  for accuracy in (latent.knn_accuracy, latent.linear_probe_accuracy):
    assert accuracy(*parts) == 1.0
    assert accuracy(0 * x[:200], labels[:200], 0 * x[200:], labels[200:]) < 0.5
  with pytest.raises(errors.UserError, match="smaller k"):
    latent.knn_accuracy(x[:5], labels[:5], x, labels)


BASE = TransformerConfig(
    vocab_size=31, d_model=16, d_ff=32, num_layers=2, num_heads=2, max_length=8,
    dropout=0.0, dtype="float32",
)


def batches():
  rng = np.random.default_rng(0)
  for n in (4, 2):
    weights = np.tile(np.arange(9) > 2, (4, 1))
    weights[n:] = 0  # Fills the batch up.
    yield {
        "tokens": rng.integers(0, 31, (4, 9)).astype(np.int32),
        "weights": weights.astype(np.uint8), "source": np.zeros(4),
    }


@pytest.mark.parametrize("prior", ["learned", "standard"])
def test_a_model_is_asked(prior):
  task = CVAETask(CVAEConfig(BASE, 1, 4, prior=prior, injections=("softmax",)))
  params = step_lib.TrainStep(task, optax.sgd(0.1)).init()["params"]
  params["cvae"]["softmax"]["kernel"] *= 100
  params["cvae"]["posterior"]["mean"]["kernel"] *= 500
  samples = latent.ask(task, params, batches(), 3)
  assert samples.mean.shape == (6, 4) and samples.nll.shape == (3, 6)
  np.testing.assert_array_equal(samples.tokens, np.full(6, 6))
  # Against the task, for the second batch.
  batch = jax.tree.map(jnp.asarray, list(batches())[1])
  q, p = task.distributions(params, batch)
  np.testing.assert_allclose(samples.mean[4:], q.mean[:2], rtol=1e-5)
  np.testing.assert_allclose(
      samples.log_prior[0, 4:],
      gaussian.log_density(first_rows(p), samples.z[4:]), rtol=1e-4
  )
  swapped = jnp.zeros((4, 4)).at[:2].set(samples.z[[5, 4]])
  np.testing.assert_allclose(
      samples.other_nll[4:], task.nll(params, batch, swapped)[1][:2], rtol=1e-4
  )
  found = latent.measure(task, params, batches(), 3)
  assert found == latent.summary(samples, prior == "learned")
  assert found["sequences"] == 6 and found["tokens"] == 36
  assert found["mutual_information"] <= found["mutual_information_bound"]
  assert found["mutual_information_bound"] == math.log(6)
  perplexity = found["perplexity"]
  assert perplexity["importance_weighted"] <= perplexity["elbo"] * 1.05
  assert found["active_units"] == 4
  with pytest.raises(errors.UserError, match="num_samples"):
    latent.ask(task, params, batches(), 0)
  with pytest.raises(errors.UserError, match="no texts"):
    latent.ask(task, params, [], 1)


def first_rows(p):
  return gaussian.Gaussian(p.mean[:2], p.log_variance[:2])
