import math

import numpy as np
from scipy import special, stats

from ctrl_jax.evaluation import information


def test_information_of_separated_and_of_equal_posteriors():
  separated = 100.0 * np.arange(16)[:, None] + np.zeros((16, 3))
  z = separated + np.random.default_rng(0).normal(size=(16, 3))
  found = information.mutual_information(separated, np.zeros((16, 3)), z)
  np.testing.assert_allclose(found.nats.value, math.log(16), rtol=1e-6)
  assert found.bound == math.log(16)
  same = information.mutual_information(0 * separated, np.zeros((16, 3)), 0 * z)
  np.testing.assert_allclose(same.nats.value, 0, atol=1e-9)


def test_information_is_at_most_log_n_and_as_the_densities_say():
  rng = np.random.default_rng(0)
  mean, log_variance = rng.normal(size=(2, 8, 4)) * 3
  z = mean + np.exp(log_variance / 2) * rng.normal(size=(8, 4))
  found = information.mutual_information(mean, log_variance, z)
  density = stats.norm.logpdf(
      z[:, None], mean[None], np.exp(log_variance / 2)[None]
  ).sum(-1)
  expected = np.diagonal(density) - special.logsumexp(density, 1) + math.log(8)
  np.testing.assert_allclose(found.nats.value, expected.mean(), rtol=1e-6)
  assert found.nats.low <= found.nats.value <= found.nats.high <= math.log(8)


def test_active_units_by_hand():
  prompt = np.linspace(-1, 1, 50)[:, None] * [[1.0, 1.0, 0.0]]
  own = np.linspace(-1, 1, 50)[:, None] * [[0.0, 1.0, 0.05]]
  count = lambda *args, **kw: information.active_units(*args, **kw).value
  assert count(prompt + own) == 2
  assert count(prompt + own, prompt) == 1
  assert count(prompt + own, prompt, threshold=1e-4) == 2
  assert information.active_units(prompt + own, prompt) == (1, 1, 1)


def test_the_interval_of_active_units_is_of_the_texts():
  """As resampling the texts themselves gives it."""
  rng = np.random.default_rng(0)
  mean = 5 + rng.normal(size=(20, 8)) * np.linspace(0.05, 0.15, 8)
  found = information.active_units(mean)
  rng = np.random.default_rng(0)
  places = rng.integers(20, size=(2000, 20))
  counts = (mean[places].var(1) > 0.01).sum(1)
  assert found == (
      (mean.var(0) > 0.01).sum(), *np.quantile(counts, [0.025, 0.975])
  )
  assert found.low < found.value < found.high
