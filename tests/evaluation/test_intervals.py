"""Intervals beside other programs' and their coverage."""

import numpy as np
import pytest
from scipy import stats

from ctrl_jax import errors
from ctrl_jax.evaluation import intervals


@pytest.mark.parametrize("successes, trials", [(0, 10), (3, 10), (500, 500)])
@pytest.mark.parametrize("level", [0.95, 0.5])
def test_wilson_is_scipy_s(successes, trials, level):
  found = intervals.wilson(successes, trials, level)
  expected = stats.binomtest(successes, trials).proportion_ci(level, "wilson")
  assert found.value == successes / trials
  np.testing.assert_allclose(found[1:], expected, atol=1e-12)


def test_wilson_by_hand():
  # p = 1/2, n = z^2: middle 1/2, half z sqrt(1/(4 z^2) + 1/(4 z^2)) / 2.
  found = intervals.wilson(2, 4, level=0.954499736)  # z = 2.
  np.testing.assert_allclose(
      found, (0.5, 0.5 - 8**-0.5, 0.5 + 8**-0.5), rtol=1e-6
  )


def test_bootstrap_is_seeded_and_close_to_the_normal_interval():
  values = np.random.default_rng(0).normal(3.0, 2.0, 400)
  found = intervals.bootstrap_mean(values)
  assert found == intervals.bootstrap_mean(values)
  assert found != intervals.bootstrap_mean(values, seed=1)
  half = 1.96 * values.std() / 20
  assert found.value == values.mean()
  np.testing.assert_allclose(
      found[1:], (values.mean() - half, values.mean() + half), atol=0.02
  )


def test_bootstrap_covers_the_true_mean():
  rng = np.random.default_rng(1)
  hits = 0
  for _ in range(200):
    _, low, high = intervals.bootstrap_mean(rng.normal(size=40), resamples=400)
    hits += low <= 0 <= high
  assert 180 <= hits <= 199


def test_chunks_do_not_matter(monkeypatch):
  values = np.arange(50.0)
  whole = intervals.bootstrap_mean(values, resamples=100)
  monkeypatch.setattr(intervals, "_CHUNK", 500)
  assert intervals.bootstrap_mean(values, resamples=100) == whole


def test_a_ratio_weighs_by_its_denominators():
  losses, tokens = np.array([2.0, 30.0, 4.0]), np.array([1.0, 10.0, 2.0])
  found = intervals.bootstrap_ratio(losses, tokens)
  assert found.value == 36 / 13
  assert 2.0 <= found.low < found.value < found.high <= 3.0
  ones = intervals.bootstrap_ratio(losses, np.ones(3))
  assert ones == intervals.bootstrap_mean(losses)


def test_any_statistic_has_an_interval():
  values = np.random.default_rng(0).normal(size=(50, 4)) * [1, 1, 1, 0.01]
  count = lambda places: (values[places].var(1) > 0.1).sum(1)
  assert intervals.bootstrap(count, 50) == (3, 3, 3)


def test_limits():
  assert intervals.bootstrap_mean([2.0]) == (2.0, 2.0, 2.0)
  assert intervals.bootstrap_mean([1.0] * 9) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("values", [[], [1.0, np.nan], [[1.0]], [np.inf]])
def test_bad_values(values):
  with pytest.raises(errors.UserError, match="finite numbers"):
    intervals.bootstrap_mean(values)


def test_bad_shares():
  for successes, trials in ((0, 0), (3, 2), (-1, 2)):
    with pytest.raises(errors.UserError, match="is no share"):
      intervals.wilson(successes, trials)
  with pytest.raises(errors.UserError, match="level=95"):
    intervals.wilson(1, 2, 95)
