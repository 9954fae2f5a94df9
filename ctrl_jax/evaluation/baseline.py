"""What a user would try first for attribution: TF-IDF + logistic regression."""

from collections.abc import Sequence

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from ctrl_jax import errors

DESCRIPTION = "TF-IDF of words and word pairs + logistic regression"


class Baseline:
  """A text classifier; also the judge of generated text.

  Words and pairs of words, sublinear term counts, the 200,000 most frequent
  features; classes weigh the same whatever their number of documents, as a
  uniform prior has it.

  Args:
    texts: documents to learn from.
    codes: the code of each.

  Raises:
    errors.UserError: fewer than two different codes.

  Example:

  >>> b = Baseline(["a cat", "two cats", "a dog", "the dogs"], list("ccdd"))
  >>> b.codes
  ('c', 'd')
  >>> b.probabilities(["dogs and dog"], ["d", "c"]).argmax()
  np.int64(0)
  """

  def __init__(self, texts: Sequence[str], codes: Sequence[str]):
    self.num_documents = len(texts)
    if len(set(codes)) < 2:
      raise errors.UserError(
          "A classifier needs training documents of at least two control codes;"
          f" got {sorted(set(codes))}."
      )
    self._pipeline: Pipeline = make_pipeline(
        TfidfVectorizer(
            ngram_range=(1, 2), sublinear_tf=True, max_features=200_000,
            dtype=np.float32,
        ),
        # C=30 was the best of 1, 10 and 30 on 21 Reddit codes (73 %); a tenth
        # of this tolerance changes 0.2 %, ten times it stops at once.
        LogisticRegression(
            C=30.0, class_weight="balanced", max_iter=500, tol=3e-4
        ),
    )
    self._pipeline.fit(texts, codes)

  @property
  def codes(self) -> tuple[str, ...]:
    """The codes it tells apart."""
    return tuple(map(str, self._pipeline.classes_))

  def probabilities(
      self, texts: Sequence[str], codes: Sequence[str]
  ) -> np.ndarray:
    """Returns p(code | text), float64 [num_texts, num_codes].

    Args:
      texts: what to judge.
      codes: order of the columns; codes it never saw get 0.
    """
    found = np.zeros((len(texts), len(codes)))
    if not len(texts):
      return found
    p = self._pipeline.predict_proba(texts)
    for column, code in enumerate(self.codes):
      if code in codes:
        found[:, list(codes).index(code)] = p[:, column]
    return found

  def hits(self, texts: Sequence[str], codes: Sequence[str]) -> list[bool]:
    """Returns for each text whether its code is the most probable one.

    Args:
      texts: what to judge.
      codes: one a text.
    """
    judged = self.probabilities(texts, self.codes).argmax(-1)
    return [
        self.codes[i] == code for i, code in zip(judged, codes, strict=True)
    ]
