"""What latents know of their texts: mutual information, active units.

Pure functions in NumPy and float64, in nats; N texts, Z latent.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from ctrl_jax.evaluation import intervals

# A unit is active above this variance (Burda et al. 2016).
ACTIVE = 0.01


class MutualInformation(NamedTuple):
  """An estimate of I(z; text) from N texts.

  Attributes:
    nats: the estimate with its 95 % interval; never more than `bound`. The
      interval is over texts with q(z) as it is: a text drawn twice would make
      q(z) another one.
    bound: log N: with so many texts nothing larger can be seen.
  """

  nats: intervals.Interval
  bound: float


def mutual_information(
    mean: np.ndarray, log_variance: np.ndarray, z: np.ndarray
) -> MutualInformation:
  """Returns I(z; text) under the posterior, E[log q(z|text) - log q(z)].

  q(z) is the mean of the N posteriors, and both terms are of the samples: so
  the estimate is at most log N, whatever the KL (Hoffman and Johnson 2016, as
  in He et al. 2019). Of a CVAE, text is the pair: what the prompt alone says
  counts, too.

  Args:
    mean: [N, Z], the posteriors'.
    log_variance: [N, Z].
    z: [N, Z], one sample of each.
  """
  log_q = _log_densities(mean, log_variance, z)
  own = np.diagonal(log_q)
  log_n = math.log(len(log_q))
  aggregate = special.logsumexp(log_q, axis=1) - log_n
  return MutualInformation(intervals.bootstrap_mean(own - aggregate), log_n)


def _log_densities(mean, log_variance, z):
  """Of each sample under each posterior, float64 [N samples, N]."""
  mean, log_variance, z = (
      np.asarray(x, np.float64) for x in (mean, log_variance, z)
  )
  precision = np.exp(-log_variance)
  squares = (
      z**2 @ precision.T - 2 * z @ (mean * precision).T
      + (mean**2 * precision).sum(1)[None]
  )
  constant = log_variance.sum(1) + z.shape[1] * math.log(2 * math.pi)
  return -0.5 * (squares + constant[None])


def active_units(
    mean: np.ndarray,
    prior_mean: np.ndarray | None = None,
    threshold: float = ACTIVE,
) -> intervals.Interval:
  """Counts dimensions whose posterior mean varies from text to text.

  Args:
    mean: [N, Z], the posteriors'.
    prior_mean: [N, Z], of a prior that reads prompts: then what varies is the
      difference, what the text says beyond its prompt. None: a standard prior.
    threshold: of the variance.

  Returns:
    The number, with its 95 % interval over texts.
  """
  mean = np.asarray(mean, np.float64)
  if prior_mean is not None:
    mean = mean - prior_mean
  mean = mean - mean.mean(0)  # So that squares do not swamp the variance.

  def count(places):
    # Moments by products: no copy of [R, N, Z].
    times = np.apply_along_axis(np.bincount, 1, places, None, len(mean))
    share = times / len(mean)
    variance = share @ mean**2 - (share @ mean) ** 2
    return (variance > threshold).sum(1)

  return intervals.bootstrap(count, len(mean))
