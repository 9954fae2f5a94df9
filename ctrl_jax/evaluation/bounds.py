"""Bounds of -log p(y) of a model with latents, each by its name.

Pure functions on what a model says of N texts, in NumPy and float64; in nats. S
samples a text. With q the posterior and p the prior of each text (of its
prompt, in a CVAE),

  negative ELBO        E_q[-log p(y|z)] + KL(q || p)
  importance-weighted  -log 1/S sum_s p(y|z_s) p(z_s) / q(z_s), z_s from q
  prior samples        -log 1/S sum_s p(y|z_s),                 z_s from p

are upper bounds of -log p(y), in expectation; the second is at most the first
(Burda et al. 2016). p(y|z) for z of the posterior without the KL is none.
"""

import math

import numpy as np
from scipy import special


def negative_elbo(reconstruction: np.ndarray, kl: np.ndarray) -> np.ndarray:
  """Returns [N] of -log p(y|z) [S, N], z from the posterior, and KL [N]."""
  return np.asarray(reconstruction, np.float64).mean(0) + kl


def importance_weighted_nll(
    nll: np.ndarray, log_prior: np.ndarray, log_posterior: np.ndarray
) -> np.ndarray:
  """Returns the importance-weighted bound of -log p(y), float64 [N].

  Args:
    nll: [S, N], -log p(y | x, z_s) of latents drawn from the posterior.
    log_prior: [S, N], log p(z_s | x): of a CVAE its own prompt's.
    log_posterior: [S, N], log q(z_s | x, y).
  """
  log_weights = -np.asarray(nll, np.float64) + log_prior - log_posterior
  return math.log(len(nll)) - special.logsumexp(log_weights, axis=0)


def prior_sample_nll(nll: np.ndarray) -> np.ndarray:
  """Returns a bound of -log p(y), float64 [N], of nll [S, N], z of the prior.

  With S = 1 it is what the CVAE's authors report (`eval_ppl_prefix.py`).
  """
  log_likelihood = -np.asarray(nll, np.float64)
  return math.log(len(nll)) - special.logsumexp(log_likelihood, axis=0)
