"""What a latent is worth: `encode` and `ask` put texts to a CVAE.

In nats; S samples a text, N texts, Z latent. `latent_summary` makes numbers of
what they say; what these mean stands in `bounds` and `information`.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from ctrl_jax import errors
from ctrl_jax.models import gaussian
from ctrl_jax.tasks.cvae import CVAETask

Batches = Iterable[Mapping[str, np.ndarray]]


class Encoded(NamedTuple):
  """What the encoder says of N texts.

  Attributes:
    mean: [N, Z], the posteriors', like the next.
    log_variance: [N, Z].
    prior_mean: [N, Z], like the next.
    prior_log_variance: [N, Z].
    kl: [N, Z], of each dimension.
    z: [N, Z], a sample of each posterior.
    prior_z: [N, Z], a sample of each prior.
  """

  mean: np.ndarray
  log_variance: np.ndarray
  prior_mean: np.ndarray
  prior_log_variance: np.ndarray
  kl: np.ndarray
  z: np.ndarray
  prior_z: np.ndarray


class Likelihoods(NamedTuple):
  """What the decoder says of N texts under latents.

  Attributes:
    tokens: [N], targets.
    kl: [N], of posterior and prior, summed over dimensions.
    nll: [S, N], z of the posterior.
    log_prior: [S, N], of these z.
    log_posterior: [S, N].
    prior_nll: [S, N], z of the prior.
    prior_log_prior: [S, N], of these z.
    prior_log_posterior: [S, N].
    other_nll: [N], z of another text's posterior, the batch's next.
    zero_nll: [N], z of zeros.
  """

  tokens: np.ndarray
  kl: np.ndarray
  nll: np.ndarray
  log_prior: np.ndarray
  log_posterior: np.ndarray
  prior_nll: np.ndarray
  prior_log_prior: np.ndarray
  prior_log_posterior: np.ndarray
  other_nll: np.ndarray
  zero_nll: np.ndarray


def of_model(model: Any) -> tuple[CVAETask, Any]:
  """Returns a `LanguageModel`'s CVAE as a task, and the task's parameters.

  Raises:
    errors.UserError: it has none.
  """
  model.check_has_latent()
  params = {"base": model.params, "cvae": model.cvae.params}
  return CVAETask(model.cvae.config), params


def encode(task: Any, params: Any, batches: Batches, seed: int = 0) -> Encoded:
  """Runs a CVAE's encoder over batches.

  Args:
    task: a `tasks.cvae.CVAETask`.
    params: its parameters.
    batches: `tokens` and `weights` as its loss takes them; rows without a
      target are left out.
    seed: of the samples.

  Raises:
    errors.UserError: there is no text.
  """

  def one(batch, real, key):
    q, p = _distributions(task, params, batch)
    found = (
        *q, *p, gaussian.kl(q, p), gaussian.sample(q, key),
        gaussian.sample(p, jax.random.fold_in(key, 1)),
    )
    return Encoded(*(np.asarray(x)[real] for x in found))

  return Encoded(*map(np.concatenate, zip(*_each(one, batches, seed))))


def ask(
    task: Any, params: Any, batches: Batches, num_samples: int, seed: int = 0
) -> Likelihoods:
  """Runs a CVAE over batches of at least two texts each.

  Args:
    task: a `tasks.cvae.CVAETask`.
    params: its parameters.
    batches: see `encode`.
    num_samples: S.
    seed: of the samples.

  Raises:
    errors.UserError: no samples, no text, or a batch with a single text, which
      has no other.
  """
  if num_samples < 1:
    raise errors.UserError(f"num_samples={num_samples} must be at least 1.")

  def one(batch, real, key):
    if real.sum() < 2:
      raise errors.UserError(
          "A batch with fewer than two texts: another's latent cannot be put"
          " in. Evaluate more texts, or change the batch size."
      )
    return _ask_batch(task, params, batch, real, num_samples, key)

  parts = _each(one, batches, seed)
  return Likelihoods(*(
      np.concatenate(part, axis=part[0].ndim - 1) for part in zip(*parts)
  ))


def prior_nll(
    task: Any, params: Any, batches: Batches, num_samples: int, seed: int = 0
) -> np.ndarray:
  """Returns -log p(y | x, z) for latents of the prior, [S, N].

  Args:
    task: see `encode`, like the next two.
    params: its parameters.
    batches: of texts.
    num_samples: S, at least 1.
    seed: of the samples.
  """

  def one(batch, real, key):
    _, p = _distributions(task, params, batch)
    return np.stack([
        np.asarray(_nll(task, params, batch, z))[real]
        for z in _draws(p, key, num_samples)
    ])

  return np.concatenate(_each(one, batches, seed), axis=1)


def _draws(of, key, num_samples):
  return [gaussian.sample(of, k) for k in jax.random.split(key, num_samples)]


def _each(one: Callable, batches: Batches, seed: int) -> list[Any]:
  """What `one(batch, which rows are real, key)` returns for each batch."""
  found = []
  for number, batch in enumerate(batches):
    inputs = {k: batch[k] for k in ("tokens", "weights")}
    key = jax.random.fold_in(jax.random.key(seed), number)
    found.append(one(inputs, np.asarray(inputs["weights"])[:, 1:].any(1), key))
  if not found:
    raise errors.UserError("There are no texts to evaluate.")
  return found


def _ask_batch(task, params, batch, real, num_samples, key):
  q, p = _distributions(task, params, batch)
  nll = lambda z: np.asarray(_nll(task, params, batch, z))[real]
  posterior_key, prior_key = jax.random.split(key)
  draws = _draws(q, posterior_key, num_samples)
  prior_draws = _draws(p, prior_key, num_samples)
  density = lambda g, draws: np.stack(
      [np.asarray(gaussian.log_density(g, z))[real] for z in draws]
  )
  own = np.asarray(draws[0])
  # The next real row's, around.
  places = np.arange(len(real))
  places[real] = np.roll(places[real], -1)
  weights = np.asarray(batch["weights"])[:, 1:]
  return Likelihoods(
      tokens=weights.astype(np.float64).sum(1)[real],
      kl=np.asarray(gaussian.kl(q, p), np.float64).sum(1)[real],
      nll=np.stack([nll(z) for z in draws]),
      log_prior=density(p, draws),
      log_posterior=density(q, draws),
      prior_nll=np.stack([nll(z) for z in prior_draws]),
      prior_log_prior=density(p, prior_draws),
      prior_log_posterior=density(q, prior_draws),
      other_nll=nll(own[places]),
      zero_nll=nll(np.zeros_like(own)),
  )


@functools.partial(jax.jit, static_argnums=0)
def _distributions(task, params, batch):
  return task.distributions(params, batch)


@functools.partial(jax.jit, static_argnums=0)
def _nll(task, params, batch, z_BZ):
  return task.nll(params, batch, z_BZ)[1]
