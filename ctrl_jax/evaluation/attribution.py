"""Which control code a text reads most like: p(c | x) by Bayes' rule.

  p(c | x) = p(x | c) p(c) / sum_c' p(x | c') p(c')     (CTRL, section 5)

The paper finds that the codes' shares of the training data, as p(c), favour
the big domains too much, and uses a uniform prior; the release parses its
prior and never applies it. Here uniform is the default.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from ctrl_jax import errors
from ctrl_jax.evaluation.score import Score


@dataclasses.dataclass(frozen=True)
class Attribution:
  """One code's place in a ranking.

  Attributes:
    code: the control code.
    perplexity: of the text read under it.
    posterior: p(code | text) among the codes compared.
  """

  code: str
  perplexity: float
  posterior: float


def log_prior(
    codes: Sequence[str], prior: Mapping[str, float] | None
) -> np.ndarray:
  """Returns log p(c), float64 [num_codes], normalised over `codes`.

  Args:
    codes: the codes to compare.
    prior: weight a code, None for a uniform one.

  Raises:
    errors.UserError: a code without a weight, a weight that is negative or not
      finite, or all weights 0.
  """
  if prior is None:
    return np.full(len(codes), -np.log(len(codes)))
  missing = [c for c in codes if c not in prior]
  if missing:
    raise errors.UserError(
        f"The prior says nothing about {', '.join(map(repr, missing))}: give"
        " each code that is compared a weight."
    )
  try:
    weights = np.array([prior[c] for c in codes], np.float64)
  except (TypeError, ValueError) as e:
    raise errors.UserError(f"A prior's weights must be numbers: {e}.") from e
  if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
    raise errors.UserError(
        "A prior's weights must be finite, at least 0 and not all 0; got "
        + ", ".join(f"{c}={prior[c]}" for c in codes) + "."
    )
  with np.errstate(divide="ignore"):  # log 0 = -inf is what is meant.
    return np.log(weights / weights.sum())


def posterior(log_probs: np.ndarray, log_prior_C: np.ndarray) -> np.ndarray:
  """Returns p(c | x), float64 [..., C], rows summing to 1.

  Args:
    log_probs: log p(x | c), [..., C].
    log_prior_C: log p(c), [C].

  Example:

  >>> posterior(np.log([[0.2, 0.1]]), np.log([0.5, 0.5])).round(3)
  array([[0.667, 0.333]])
  """
  joint = np.asarray(log_probs, np.float64) + log_prior_C
  joint = np.exp(joint - joint.max(-1, keepdims=True))
  return joint / joint.sum(-1, keepdims=True)


def rank(
    codes: Sequence[str], scores: Sequence[Score], log_prior_C: np.ndarray
) -> list[Attribution]:
  """Returns the codes, best first, of one text scored under each.

  With a uniform prior the order is that of ascending perplexity, as all codes
  are scored on the same tokens.
  """
  log_probs = np.array([s.log_prob for s in scores])
  # Sorted by the joint: posteriors of long texts underflow to equal zeros.
  order = np.argsort(-(log_probs + log_prior_C), kind="stable")
  p = posterior(log_probs, log_prior_C)
  return [
      Attribution(codes[i], scores[i].perplexity, float(p[i])) for i in order
  ]


def top_k_accuracy(scores: np.ndarray, labels: np.ndarray, k: int) -> float:
  """Share of rows whose label is among the k highest scores.

  A tie counts against the label, so that a model that cannot tell codes apart
  gets 0.

  Args:
    scores: [N, C], any monotone function of the posterior.
    labels: index of the right code, [N].
    k: how many guesses are allowed.

  Example:

  >>> top_k_accuracy(np.array([[3., 2, 1], [3, 2, 1]]), np.array([0, 2]), 1)
  0.5
  """
  own = scores[np.arange(len(labels)), labels]
  at_least = (scores >= own[:, None]).sum(-1)
  return float((at_least <= k).mean())
