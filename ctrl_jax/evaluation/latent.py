"""What a latent is worth: bounds on the likelihood, information, use.

Pure functions on what a model says of N texts, in NumPy and float64; and
`measure`, which asks a model. Everything in nats. S samples a text, Z latent.

Every likelihood here is a bound, and says which: with q the posterior and p
the prior of each text (of its prompt, in a CVAE),

  negative ELBO        E_q[-log p(y|z)] + KL(q || p)
  importance-weighted  -log 1/S sum_s p(y|z_s) p(z_s) / q(z_s), z_s from q
  prior samples        -log 1/S sum_s p(y|z_s),                 z_s from p

are upper bounds of -log p(y), in expectation; the second is at most the first
(Burda et al. 2016). p(y|z) for z of the posterior without the KL is none.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import special

from ctrl_jax import errors
from ctrl_jax.models import gaussian

# A unit is active above this variance (Burda et al. 2016).
ACTIVE = 0.01


class MutualInformation(NamedTuple):
  """An estimate of I(z; text) from N texts.

  Attributes:
    nats: the estimate; never more than `bound`.
    bound: log N: with so many texts nothing larger can be seen.
  """

  nats: float
  bound: float


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
  return MutualInformation(float((own - aggregate).mean()), log_n)


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
) -> int:
  """Counts dimensions whose posterior mean varies from text to text.

  Args:
    mean: [N, Z], the posteriors'.
    prior_mean: [N, Z], of a prior that reads prompts: then what varies is the
      difference, what the text says beyond its prompt. None: a standard prior.
    threshold: of the variance.
  """
  mean = np.asarray(mean, np.float64)
  if prior_mean is not None:
    mean = mean - prior_mean
  return int((mean.var(0) > threshold).sum())


def knn_accuracy(
    train: np.ndarray,
    train_labels: Sequence[Any],
    test: np.ndarray,
    test_labels: Sequence[Any],
    k: int = 10,
) -> float:
  """Returns how often the label of most of the k nearest is the right one.

  Args:
    train: [N, Z], latents whose labels are known.
    train_labels: N.
    test: [M, Z].
    test_labels: M.
    k: neighbours, by Euclidean distance; at most N.

  Raises:
    errors.UserError: fewer latents than neighbours.
  """
  from sklearn import neighbors

  if k > len(train):
    raise errors.UserError(
        f"{k} neighbours among {len(train)} latents: give more, or a smaller k."
    )
  classifier = neighbors.KNeighborsClassifier(k)
  return float(classifier.fit(train, train_labels).score(test, test_labels))


def linear_probe_accuracy(
    train: np.ndarray,
    train_labels: Sequence[Any],
    test: np.ndarray,
    test_labels: Sequence[Any],
) -> float:
  """Returns how often logistic regression on scaled latents is right.

  Args:
    train: [N, Z], latents whose labels are known.
    train_labels: N.
    test: [M, Z].
    test_labels: M.
  """
  from sklearn import linear_model, pipeline, preprocessing

  classifier = pipeline.make_pipeline(
      preprocessing.StandardScaler(),
      linear_model.LogisticRegression(max_iter=2000),
  )
  return float(classifier.fit(train, train_labels).score(test, test_labels))


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
    conditional: whether the prior reads prompts, see `active_units`.

  Returns:
    sequences, tokens, samples; reconstruction, kl, negative_elbo, a sequence;
    perplexities a token, by bound; mutual_information with its bound log N;
    active_units of latent_size; and ablation, nats a sequence that another z
    costs against the posterior's own.
  """
  s = samples
  kl = s.kl.astype(np.float64).sum(1)
  elbo = negative_elbo(s.nll, kl)
  weighted = importance_weighted_nll(s.nll, s.log_prior, s.log_posterior)
  tokens = s.tokens.sum()
  perplexity = lambda nll: math.exp(min(nll.sum() / tokens, 700.0))
  information = mutual_information(s.mean, s.log_variance, s.z)
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
          prior_samples=perplexity(prior_sample_nll(s.prior_nll)),
          one_prior_sample=perplexity(prior_sample_nll(s.prior_nll[:1])),
      ),
      mutual_information=information.nats,
      mutual_information_bound=information.bound,
      active_units=active_units(s.mean, s.prior_mean if conditional else None),
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
