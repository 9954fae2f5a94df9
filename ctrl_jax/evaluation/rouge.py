"""ROUGE-1, -2 and -L with Google's `rouge-score`."""

from collections.abc import Sequence
from typing import Any

from ctrl_jax import errors
from ctrl_jax.evaluation import intervals

KINDS = ("rouge1", "rouge2", "rougeL")


def measure(
    predictions: Sequence[str], references: Sequence[str]
) -> dict[str, Any]:
  """Returns mean precision, recall and F1 over pairs, from 0 to 1.

  Lin 2004. Words are runs of letters a to z and digits in lower case, without
  stemming; n-grams count as often as they stand; ROUGE-L is over the text as
  one sequence. (The Transformer CVAE's paper used the package `rouge`, in a
  version it does not name: its numbers are others.)

  Args:
    predictions: generated texts.
    references: the true text of each.

  Returns:
    rouge1, rouge2, rougeL: precision, recall, f1, each value, low, high (95 %,
    bootstrap over pairs); pairs: how many.

  Raises:
    errors.UserError: no pairs, or not as many of one as of the other.

  Example:

  >>> measure(["a cat"], ["the cat sat"])["rouge1"]["precision"]["value"]
  0.5
  """
  from rouge_score import rouge_scorer  # Imports NLTK: a second.

  if len(predictions) != len(references) or not len(predictions):
    raise errors.UserError(
        f"{len(predictions)} predictions and {len(references)} references:"
        " ROUGE compares pairs."
    )
  scorer = rouge_scorer.RougeScorer(KINDS, use_stemmer=False)
  scores = [
      scorer.score(target, prediction)
      for target, prediction in zip(references, predictions, strict=True)
  ]
  found = {
      kind: {
          name: intervals.bootstrap_mean(
              [getattr(score[kind], field) for score in scores]
          )._asdict()
          for name, field in (
              ("precision", "precision"), ("recall", "recall"),
              ("f1", "fmeasure"),
          )
      }
      for kind in KINDS
  }
  return dict(found, pairs=len(scores))
