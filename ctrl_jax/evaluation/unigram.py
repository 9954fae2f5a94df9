"""How frequent each token is in a model's training data."""

import dataclasses

import numpy as np

from ctrl_jax import errors
from ctrl_jax.data import batches, manifest

_BATCH = 256


@dataclasses.dataclass(frozen=True)
class Unigram:
  """A distribution over single tokens.

  Attributes:
    log_probs: float64 [V], natural logarithms; their exponents sum to 1.
    num_tokens: tokens counted.
    alpha: what was added to each count.
    tokenizer_hash: `Tokenizer.hash` of the tokenizer whose ids these are.
  """

  log_probs: np.ndarray
  num_tokens: int
  alpha: float
  tokenizer_hash: str

  def log_prob(self, ids) -> float:
    """Returns the sum of log p over token ids."""
    return float(self.log_probs[np.asarray(ids, np.int64)].sum())


def count(data: manifest.Manifest, *, alpha: float = 1.0) -> Unigram:
  """Counts the training targets of a prepared data set.

  p(t) = (c(t) + alpha) / (N + alpha V), with V the tokenizer's vocabulary. What
  the model's loss covers is counted and nothing else: the ends of documents
  are, control codes and the prompts of pairs are not. A source counts times its
  weight, as in training.

  Args:
    data: the data set that the model was trained on.
    alpha: above 0, so that no token is impossible.

  Raises:
    errors.UserError: alpha is not above 0, or there are no training targets.
  """
  if not 0 < alpha < np.inf:
    raise errors.UserError(
        f"alpha={alpha} must be above 0: tokens that never occur in training"
        " would have no probability."
    )
  weights = np.array([source.weight for source in data.sources])
  counts = np.zeros(data.vocab_size)
  num_tokens = 0
  for batch in batches.evaluation_batches(data, "train", _BATCH):
    is_target = batch["weights"][:, 1:] > 0
    of_rows = np.broadcast_to(
        weights[batch["source"]][:, None], is_target.shape
    )
    counts += np.bincount(
        batch["tokens"][:, 1:][is_target], of_rows[is_target],
        minlength=data.vocab_size,
    )
    num_tokens += int(is_target.sum())
  if not counts.sum():
    raise errors.UserError(
        f"The data set {str(data.folder)!r} has no training targets to count."
    )
  smoothed = counts + alpha
  return Unigram(
      np.log(smoothed) - np.log(smoothed.sum()), num_tokens, alpha,
      data.tokenizer_hash,
  )
