"""Perplexity of held-out text that a model learnt without a control code."""

from collections.abc import Sequence
from typing import Any

from ctrl_jax import errors
from ctrl_jax.evaluation import score
from ctrl_jax.evaluation.documents import Document


def measure(model: Any, documents: Sequence[Document]) -> dict[str, Any]:
  """Returns documents, tokens that were predicted, and their perplexity.

  A document's first token is not predicted: nothing stands before it.

  Args:
    model: a `LanguageModel`.
    documents: what to read; their codes are not looked at.

  Raises:
    errors.UserError: there are no documents.
  """
  if not documents:
    raise errors.UserError(
        "No held-out documents without a control code are long enough. Lower"
        " --min-tokens, or choose another --split."
    )
  scores = model.score_ids([((), d.ids) for d in documents])
  tokens = sum(s.num_tokens for s in scores)
  log_prob = sum(s.log_prob for s in scores)
  return dict(
      documents=len(documents),
      tokens=tokens,
      perplexity=score.perplexity(log_prob, tokens),
  )


def line(found: dict[str, Any]) -> str:
  """Returns what `measure` found as a line for the terminal."""
  return (
      f"Without a code: perplexity {found['perplexity']:.2f} over"
      f" {found['documents']} documents, {found['tokens']} tokens."
  )
