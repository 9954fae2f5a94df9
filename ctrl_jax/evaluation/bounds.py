"""Bounds of -log p(y) of a model with latents, each by its name.

Pure functions on what a model says of N texts, in NumPy and float64; in nats. S
samples a text. With q the posterior and p the prior of each text (of its
prompt, in a CVAE),

  negative ELBO        E_q[-log p(y|z)] + KL(q || p)
  importance-weighted  -log 1/S sum_s p(y|z_s) p(z_s) / q(z_s), z_s from q
  prior samples        -log 1/S sum_s p(y|z_s),                 z_s from p
  balanced             -log 1/S sum_s p(y|z_s) p(z_s) / m(z_s), m = (q + p) / 2,
                       as many z_s from q as from p

are upper bounds of -log p(y), in expectation; the second is at most the first
(Burda et al. 2016). The last is importance-weighted, too: where q leaves out
what explains y, few samples of it have most of the weight, and the prior's help
(the balance heuristic, Veach and Guibas 1995; Owen and Zhou 2000: a weight is
at most 2 p(y|z)). p(y|z) for z of the posterior without the KL is no bound.
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


def balanced_nll(
    nll: np.ndarray, log_prior: np.ndarray, log_posterior: np.ndarray
) -> np.ndarray:
  """Returns the importance-weighted bound of samples of both, float64 [N].

  Args:
    nll: [S, N], -log p(y | x, z_s), half of the latents drawn from the
      posterior, half from the prior.
    log_prior: [S, N], log p(z_s | x).
    log_posterior: [S, N], log q(z_s | x, y).
  """
  log_mixture = np.logaddexp(log_prior, log_posterior) - math.log(2)
  return importance_weighted_nll(nll, log_prior, log_mixture)


def prior_sample_nll(nll: np.ndarray) -> np.ndarray:
  """Returns a bound of -log p(y), float64 [N], of nll [S, N], z of the prior.

  With S = 1 it is what the CVAE's authors report (`eval_ppl_prefix.py`).
  """
  log_likelihood = -np.asarray(nll, np.float64)
  return math.log(len(nll)) - special.logsumexp(log_likelihood, axis=0)
