"""The matrix's orientation and what is read off it."""

import numpy as np

from ctrl_jax.evaluation import perplexity
from ctrl_jax.evaluation.documents import Document


class FakeModel:
  """Says -(1 + |code - first id|) a token."""

  tokenizer = type("T", (), {"code_ids": staticmethod(lambda c: [int(c)])})()

  def score_ids(self, sequences, progress=""):
    from ctrl_jax.evaluation.score import Score

    return [
        Score(-len(ids) * (1.0 + 2 * abs(prefix[0] - ids[0])), len(ids))
        for prefix, ids in sequences
    ]


def test_score_documents_keeps_documents_in_rows():
  documents = [Document("1", "", (1, 5)), Document("0", "", (0, 5, 5))]
  found = perplexity.score_documents(FakeModel(), documents, ["0", "1"])
  np.testing.assert_array_equal(found, [[-6, -2], [-3, -9]])


def test_matrix_has_codes_in_rows_and_domains_in_columns():
  # Two documents of domain 0 (2 and 6 tokens), one of domain 1 (4 tokens).
  log_probs = np.array([[-2., -4], [-8, -12], [-4, -2]])
  found = perplexity.matrix(
      log_probs, np.array([2, 6, 4]), np.array([0, 0, 1]), 2
  )
  np.testing.assert_allclose(
      np.log(found), [[10 / 8, 4 / 4], [16 / 8, 2 / 4]]
  )


def test_summary():
  # Column 2: another code reads it better. Row 1: domain 0 is easier.
  losses = np.array([[1., 4, 1], [2, 3, 2], [3, 6, 1.5]])
  found = perplexity.summary(np.exp(losses))
  np.testing.assert_allclose(np.log(found["right_by_domain"]), [1, 3, 1.5])
  np.testing.assert_allclose(np.log(found["wrong_by_domain"]), [2.5, 5, 1.5])
  np.testing.assert_allclose(np.log(found["right_code"]), 5.5 / 3)
  np.testing.assert_allclose(np.log(found["wrong_codes"]), 3)
  assert found["domains_lowest_under_own_code"] == 2
  assert found["codes_lowest_on_own_domain"] == 2


def test_matrix_stays_finite():
  found = perplexity.matrix(
      np.array([[-1e6, -1], [-1, -1e6]]), np.array([1, 1]), np.array([0, 1]), 2
  )
  assert np.isfinite(found).all()
