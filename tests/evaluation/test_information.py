import math

import numpy as np
from scipy import special, stats

from ctrl_jax.evaluation import information


def test_information_of_separated_and_of_equal_posteriors():
  separated = 100.0 * np.arange(16)[:, None] + np.zeros((16, 3))
  z = separated + np.random.default_rng(0).normal(size=(16, 3))
  found = information.mutual_information(separated, np.zeros((16, 3)), z)
  np.testing.assert_allclose(found.nats, math.log(16), rtol=1e-6)
  assert found.bound == math.log(16)
  same = information.mutual_information(0 * separated, np.zeros((16, 3)), 0 * z)
  np.testing.assert_allclose(same.nats, 0, atol=1e-9)


def test_information_is_at_most_log_n_and_as_the_densities_say():
  rng = np.random.default_rng(0)
  mean, log_variance = rng.normal(size=(2, 8, 4)) * 3
  z = mean + np.exp(log_variance / 2) * rng.normal(size=(8, 4))
  found = information.mutual_information(mean, log_variance, z)
  density = stats.norm.logpdf(
      z[:, None], mean[None], np.exp(log_variance / 2)[None]
  ).sum(-1)
  expected = np.diagonal(density) - special.logsumexp(density, 1) + math.log(8)
  np.testing.assert_allclose(found.nats, expected.mean(), rtol=1e-6)
  assert found.nats <= math.log(8)


def test_active_units_by_hand():
  prompt = np.linspace(-1, 1, 50)[:, None] * [[1.0, 1.0, 0.0]]
  own = np.linspace(-1, 1, 50)[:, None] * [[0.0, 1.0, 0.05]]
  assert information.active_units(prompt + own) == 2
  assert information.active_units(prompt + own, prompt) == 1
  assert information.active_units(prompt + own, prompt, threshold=1e-4) == 2
