"""Diagonal Gaussians over latents: sample, density, divergence.

All in float32, whatever the network's dtype; sizes in nats. Z latent.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Gaussian(NamedTuple):
  """Independent normal distributions.

  Attributes:
    mean: float32 [..., Z].
    log_variance: float32 [..., Z], log(sigma^2). (The CVAE's paper says "log
      sigma"; its authors' code predicts this.)
  """

  mean: jax.Array
  log_variance: jax.Array


def standard_like(other: Gaussian) -> Gaussian:
  """N(0, 1) of the shape of `other`."""
  return Gaussian(*map(jnp.zeros_like, other))


def bound(raw: jax.Array, limit: float) -> jax.Array:
  """Keeps log-variances inside (-limit, limit), float32.

  limit * tanh(raw / limit): the identity around zero, and its gradient nowhere
  vanishes at once as that of a clip does. Without a bound exp(log-variance)
  overflows early in training now and then (the authors' repository, issue 5).
  NaN stays NaN.
  """
  return limit * jnp.tanh(raw.astype(jnp.float32) / limit)


def sample(gaussian: Gaussian, key: jax.Array) -> jax.Array:
  """Draws mean + sigma * noise: differentiable (Kingma and Welling 2013)."""
  noise = jax.random.normal(key, gaussian.mean.shape, jnp.float32)
  return gaussian.mean + jnp.exp(gaussian.log_variance / 2) * noise


def kl(q: Gaussian, p: Gaussian) -> jax.Array:
  """KL(q || p) of each dimension, [..., Z]; sum over Z for the whole.

    1/2 (log s_p - log s_q + (m_q - m_p)^2 / s_p + s_q / s_p - 1), s variances
  """
  difference = q.log_variance - p.log_variance
  distance = jnp.square(q.mean - p.mean) * jnp.exp(-p.log_variance)
  return 0.5 * (distance + jnp.expm1(difference) - difference)


def log_density(gaussian: Gaussian, z: jax.Array) -> jax.Array:
  """Returns log N(z; mean, variance), summed over Z: [...]."""
  scaled = jnp.square(z - gaussian.mean) * jnp.exp(-gaussian.log_variance)
  terms = scaled + gaussian.log_variance + math.log(2 * math.pi)
  return -0.5 * terms.sum(-1)
