"""How sure a measured number is: intervals of 95 % unless told otherwise."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from ctrl_jax import errors

# Values that exist at one time while resampling.
_CHUNK = 1 << 22


class Interval(NamedTuple):
  """A number and the bounds of its interval."""

  value: float
  low: float
  high: float


def wilson(successes: int, trials: int, level: float = 0.95) -> Interval:
  """Returns a share and its score interval (Wilson 1927).

  Unlike the textbook's normal interval it stays within [0, 1] and has a width
  at 0 and at 1. Trials are taken to be independent.

  Args:
    successes: 0 to `trials`.
    trials: at least 1.
    level: coverage.

  Example:

  >>> wilson(0, 10).high  # z^2 / (n + z^2)
  0.2775...
  """
  _check_level(level)
  if not 0 <= successes <= trials or not trials:
    raise errors.UserError(
        f"{successes} of {trials} is no share: it takes at least one trial."
    )
  z = special.ndtri((1 + level) / 2)
  p = successes / trials
  middle = (p + z**2 / (2 * trials)) / (1 + z**2 / trials)
  half = (
      z * np.sqrt(p * (1 - p) / trials + z**2 / (4 * trials**2))
      / (1 + z**2 / trials)
  )
  # At 0 and 1 a bound is the share itself, but for rounding.
  low = 0.0 if successes == 0 else max(float(middle - half), 0.0)
  high = 1.0 if successes == trials else min(float(middle + half), 1.0)
  return Interval(p, low, high)


def bootstrap(
    statistic: Callable[[np.ndarray], np.ndarray],
    size: int,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
  """Returns a statistic and its percentile bootstrap interval (Efron 1979).

  Args:
    statistic: of samples given by the places of their members, int [R, N], one
      number each, [R].
    size: N, of members; taken to be independent.
    level: coverage.
    resamples: how often N of them are drawn with replacement.
    seed: of the draws; the same seed gives the same interval.
  """
  _check_level(level)
  rng = np.random.default_rng(seed)
  rows = max(1, _CHUNK // size)
  found = []
  for start in range(0, resamples, rows):
    shape = (min(rows, resamples - start), size)
    found.append(statistic(rng.integers(size, size=shape)))
  tail = (1 - level) / 2
  low, high = np.quantile(np.concatenate(found), [tail, 1 - tail])
  value = statistic(np.arange(size)[None])[0]
  return Interval(float(value), float(low), float(high))


def bootstrap_mean(
    values: Sequence[float] | np.ndarray,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
  """Returns a mean and its interval by `bootstrap`.

  Of a difference between two methods on the same prompts, pass the differences:
  the interval is then that of pairs. Of one value the bounds are the value.

  Args:
    values: finite numbers [N], N at least 1.
    level: see `bootstrap`, like the next two.
    resamples: of N values.
    seed: of the draws.
  """
  values = _finite(values)
  return bootstrap(
      lambda places: values[places].mean(1), values.size, level=level,
      resamples=resamples, seed=seed,
  )


def bootstrap_ratio(
    numerators: Sequence[float] | np.ndarray,
    denominators: Sequence[float] | np.ndarray,
    **options,
) -> Interval:
  """Returns sum(numerators) / sum(denominators) and its interval.

  As of losses over tokens, text by text.

  Args:
    numerators: finite numbers [N].
    denominators: numbers above 0 [N].
    **options: of `bootstrap`.
  """
  above, below = _finite(numerators), _finite(denominators)
  return bootstrap(
      lambda places: above[places].sum(1) / below[places].sum(1), above.size,
      **options,
  )


def _finite(values) -> np.ndarray:
  values = np.asarray(values, np.float64)
  if values.ndim != 1 or not values.size or not np.isfinite(values).all():
    raise errors.UserError(
        f"A mean needs finite numbers in a row; got shape {values.shape}"
        f" with {int((~np.isfinite(values)).sum())} that are not finite."
    )
  return values


def _check_level(level: float) -> None:
  if not 0 < level < 1:
    raise errors.UserError(f"level={level} must be between 0 and 1.")
