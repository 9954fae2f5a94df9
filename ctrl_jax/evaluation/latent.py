"""What a latent is worth: `measure` asks a CVAE, and says all in numbers.

In nats; S samples a text, N texts, Z latent. What the numbers mean stands with
them: `bounds`, `information`.
"""

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from ctrl_jax import errors
from ctrl_jax.evaluation import bounds, information
from ctrl_jax.models import gaussian


class Samples(NamedTuple):
  """What a model says of N texts; `ask` collects it.

  Attributes:
    mean: [N, Z], the posteriors', like the next.
    log_variance: [N, Z].
    prior_mean: [N, Z].
    kl: [N, Z], of each dimension.
    z: [N, Z], a sample of each posterior, the first of S.
    tokens: [N], targets.
    nll: [S, N], z of the posterior.
    log_prior: [S, N], of these z.
    log_posterior: [S, N].
    prior_nll: [S, N], z of the prior.
    other_nll: [N], z of another text's posterior, the batch's next.
    zero_nll: [N], z of zeros.
  """

  mean: np.ndarray
  log_variance: np.ndarray
  prior_mean: np.ndarray
  kl: np.ndarray
  z: np.ndarray
  tokens: np.ndarray
  nll: np.ndarray
  log_prior: np.ndarray
  log_posterior: np.ndarray
  prior_nll: np.ndarray
  other_nll: np.ndarray
  zero_nll: np.ndarray


# Those whose texts lie along the second axis.
_BY_SAMPLE = ("nll", "log_prior", "log_posterior", "prior_nll")


def ask(
    task: Any,
    params: Any,
    batches: Iterable[Mapping[str, np.ndarray]],
    num_samples: int,
    seed: int = 0,
) -> Samples:
  """Runs a CVAE over batches of at least two texts each.

  Args:
    task: a `tasks.cvae.CVAETask`.
    params: its parameters.
    batches: `tokens` and `weights` as its loss takes them; rows without a
      target are left out.
    num_samples: S.
    seed: of the samples.

  Raises:
    errors.UserError: no samples, or a batch with a single text, which has no
      other.
  """
  if num_samples < 1:
    raise errors.UserError(f"num_samples={num_samples} must be at least 1.")
  parts = []
  for number, batch in enumerate(batches):
    inputs = {k: batch[k] for k in ("tokens", "weights")}
    key = jax.random.fold_in(jax.random.key(seed), number)
    real = np.asarray(inputs["weights"])[:, 1:].any(1)
    if real.sum() < 2:
      raise errors.UserError(
          "A batch with fewer than two texts: another's latent cannot be put"
          " in. Evaluate more texts, or change the batch size."
      )
    parts.append(_ask_batch(task, params, inputs, real, num_samples, key))
  if not parts:
    raise errors.UserError("There are no texts to evaluate.")
  axis = lambda name: int(name in _BY_SAMPLE)
  return Samples(*(
      np.concatenate([part[name] for part in parts], axis(name))
      for name in Samples._fields
  ))


def _ask_batch(task, params, batch, real, num_samples, key):
  q, p = _distributions(task, params, batch)
  nll = lambda z: np.asarray(_nll(task, params, batch, z))[real]
  keys = jax.random.split(key, (2, num_samples))
  draws = [gaussian.sample(q, k) for k in keys[0]]
  density = lambda g: np.stack(
      [np.asarray(gaussian.log_density(g, z))[real] for z in draws]
  )
  own = np.asarray(draws[0])
  # The next real row's, around.
  places = np.arange(len(real))
  places[real] = np.roll(places[real], -1)
  rows = lambda x: np.asarray(x)[real]
  weights = np.asarray(batch["weights"])[:, 1:]
  return dict(
      mean=rows(q.mean),
      log_variance=rows(q.log_variance),
      prior_mean=rows(p.mean),
      kl=rows(gaussian.kl(q, p)),
      z=rows(own),
      tokens=weights.astype(np.float64).sum(1)[real],
      nll=np.stack([nll(z) for z in draws]),
      log_prior=density(p),
      log_posterior=density(q),
      prior_nll=np.stack([nll(gaussian.sample(p, k)) for k in keys[1]]),
      other_nll=nll(own[places]),
      zero_nll=nll(np.zeros_like(own)),
  )


@functools.partial(jax.jit, static_argnums=0)
def _distributions(task, params, batch):
  return task.distributions(params, batch)


@functools.partial(jax.jit, static_argnums=0)
def _nll(task, params, batch, z_BZ):
  return task.nll(params, batch, z_BZ)[1]


def summary(samples: Samples, conditional: bool = True) -> dict[str, Any]:
  """Returns the numbers of a table, JSON types.

  Args:
    samples: of `ask`.
    conditional: whether the prior reads prompts, see
      `information.active_units`.

  Returns:
    sequences, tokens, samples; reconstruction, kl, negative_elbo, a sequence;
    perplexities a token, by bound; mutual_information with its bound log N;
    active_units of latent_size; and ablation, nats a sequence that another z
    costs against the posterior's own.
  """
  s = samples
  kl = s.kl.astype(np.float64).sum(1)
  elbo = bounds.negative_elbo(s.nll, kl)
  weighted = bounds.importance_weighted_nll(
      s.nll, s.log_prior, s.log_posterior
  )
  tokens = s.tokens.sum()
  perplexity = lambda nll: math.exp(min(nll.sum() / tokens, 700.0))
  found = information.mutual_information(s.mean, s.log_variance, s.z)
  own = s.nll.astype(np.float64).mean()
  return dict(
      sequences=len(kl),
      tokens=int(tokens),
      samples=len(s.nll),
      reconstruction=float(own),
      kl=float(kl.mean()),
      negative_elbo=float(elbo.mean()),
      perplexity=dict(
          elbo=perplexity(elbo),
          importance_weighted=perplexity(weighted),
          prior_samples=perplexity(bounds.prior_sample_nll(s.prior_nll)),
          one_prior_sample=perplexity(bounds.prior_sample_nll(s.prior_nll[:1])),
      ),
      mutual_information=found.nats,
      mutual_information_bound=found.bound,
      active_units=information.active_units(
          s.mean, s.prior_mean if conditional else None
      ),
      latent_size=s.mean.shape[1],
      ablation=dict(
          prior_sample=float(s.prior_nll.mean() - own),
          another=float(s.other_nll.mean() - own),
          zeros=float(s.zero_nll.mean() - own),
      ),
  )


def measure(
    task: Any,
    params: Any,
    batches: Iterable[Mapping[str, np.ndarray]],
    num_samples: int = 50,
    seed: int = 0,
) -> dict[str, Any]:
  """`summary` of `ask`, which say what the arguments are."""
  samples = ask(task, params, batches, num_samples, seed)
  return summary(samples, task.cvae.prior == "learned")
