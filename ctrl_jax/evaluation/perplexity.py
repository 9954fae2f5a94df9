"""Perplexity of held-out documents under the right code and under others."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctrl_jax.evaluation.documents import Document


def score_documents(
    model: Any,
    documents: Sequence[Document],
    codes: Sequence[str],
    *,
    progress: str = "",
) -> np.ndarray:
  """Returns log p(document | code), float64 [num_documents, num_codes].

  Args:
    model: a `LanguageModel`.
    documents: what to read.
    codes: what to read it under.
    progress: what the progress bar is called.
  """
  prefixes = [model.tokenizer.code_ids(c) for c in codes]
  scores = model.score_ids(
      [(prefix, d.ids) for d in documents for prefix in prefixes],
      progress=progress,
  )
  log_probs = np.array([s.log_prob for s in scores])
  return log_probs.reshape(len(documents), len(codes))


def matrix(
    log_probs: np.ndarray,
    num_tokens: np.ndarray,
    labels: np.ndarray,
    num_codes: int,
) -> np.ndarray:
  """Returns perplexities, float64 [num_codes, num_codes].

  Row i, column j: documents written in domain j, read under code i; a token
  of a domain counts the same in whatever document it is.

  Args:
    log_probs: log p(document | code), [num_documents, num_codes].
    num_tokens: tokens a document, [num_documents].
    labels: index of each document's own code, [num_documents]; each code has
      at least one document.
    num_codes: number of codes.
  """
  columns = [
      -log_probs[labels == j].sum(0) / num_tokens[labels == j].sum()
      for j in range(num_codes)
  ]
  # As in `score.perplexity`: finite.
  return np.exp(np.minimum(np.stack(columns, axis=1), 700.0))


def summary(perplexities: np.ndarray) -> dict[str, Any]:
  """What the matrix says about control, as numbers for a report.

  Perplexity under wrong codes is the geometric mean over them (the exponent
  of the mean loss); over domains likewise, each domain counting the same.

  Returns:
    right_code, wrong_codes: means over domains;
    right_by_domain, wrong_by_domain: [num_codes];
    domains_lowest_under_own_code: for how many domains (columns) the own code
      gives the lowest perplexity;
    codes_lowest_on_own_domain: under how many codes (rows) the own domain has
      the lowest perplexity. That also depends on how hard each domain is.
  """
  losses = np.log(perplexities)
  num_codes = len(losses)
  right = np.diag(losses)
  wrong = (losses.sum(0) - right) / max(num_codes - 1, 1)
  own = np.arange(num_codes)
  return dict(
      right_code=float(np.exp(right.mean())),
      wrong_codes=float(np.exp(wrong.mean())),
      right_by_domain=np.exp(right).tolist(),
      wrong_by_domain=np.exp(wrong).tolist(),
      domains_lowest_under_own_code=int((losses.argmin(0) == own).sum()),
      codes_lowest_on_own_domain=int((losses.argmin(1) == own).sum()),
  )
