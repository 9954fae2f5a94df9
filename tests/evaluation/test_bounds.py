import math

import numpy as np
import pytest
from scipy import stats

from ctrl_jax.evaluation import bounds


def linear_gaussian(samples, texts=2000, seed=0, deviation=0.9):
  """Here z ~ N(0, 1), y ~ N(z, 1), so y ~ N(0, 2); and a posterior that is off.

  Returns nll, log_prior, log_posterior [S, N], KL [N] and -log p(y) [N].
  """
  rng = np.random.default_rng(seed)
  y = rng.normal(0, math.sqrt(2), texts)
  mean = 0.4 * y
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
  elbo = bounds.negative_elbo(nll, kl).mean()
  of = lambda s: bounds.importance_weighted_nll(
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
  prior = bounds.prior_sample_nll(-stats.norm.logpdf(y[None], z, 1)).mean()
  weighted = bounds.importance_weighted_nll(nll, log_prior, log_posterior)
  assert prior > weighted.mean() > exact.mean() - 0.02
  np.testing.assert_allclose(
      bounds.prior_sample_nll(np.log([[2.0], [4.0]])),
      [-math.log((1 / 2 + 1 / 4) / 2)],
  )


@pytest.mark.parametrize("deviation", [0.2, 0.9])
def test_samples_of_both_bound_the_same(deviation):
  """Tighter where the posterior is too narrow, with as many samples."""
  samples = 16
  half = samples // 2
  parts = linear_gaussian(samples, deviation=deviation)
  nll, log_prior, log_posterior, _, exact = parts
  y = np.random.default_rng(0).normal(0, math.sqrt(2), nll.shape[1])
  z = np.random.default_rng(1).normal(size=(half, nll.shape[1]))
  both = bounds.balanced_nll(
      np.concatenate([nll[:half], -stats.norm.logpdf(y[None], z, 1)]),
      np.concatenate([log_prior[:half], stats.norm.logpdf(z)]),
      np.concatenate([
          log_posterior[:half], stats.norm.logpdf(z, 0.4 * y[None], deviation)
      ]),
  ).mean()
  own = bounds.importance_weighted_nll(nll, log_prior, log_posterior).mean()
  assert exact.mean() - 0.01 < both < exact.mean() + 0.06
  assert (both < own - 0.1) == (deviation == 0.2)


def test_weights_of_a_constant_likelihood_average_to_it():
  """A far better bound than the ELBO: here p(y|z) does not depend on z."""
  rng = np.random.default_rng(0)
  z = 0.2 + 0.7 * rng.normal(size=(4000, 1))
  found = bounds.importance_weighted_nll(
      np.full_like(z, 3.0), stats.norm.logpdf(z), stats.norm.logpdf(z, 0.2, 0.7)
  )
  np.testing.assert_allclose(found, [3.0], atol=0.1)
