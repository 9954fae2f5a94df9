"""Bayes' rule, by hand."""

import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import attribution
from ctrl_jax.evaluation.score import Score

CODES = ["a", "b", "c"]
# p(x | c) = 0.02, 0.05, 0.01.
SCORES = [Score(float(np.log(p)), 4) for p in (0.02, 0.05, 0.01)]


def rank(prior):
  return attribution.rank(CODES, SCORES, attribution.log_prior(CODES, prior))


def test_uniform_prior_orders_by_perplexity():
  found = rank(None)
  assert [a.code for a in found] == ["b", "a", "c"]
  np.testing.assert_allclose([a.posterior for a in found], [5/8, 2/8, 1/8])
  np.testing.assert_allclose(
      [a.perplexity for a in found], [0.05**-0.25, 0.02**-0.25, 0.01**-0.25]
  )


def test_prior_changes_the_ranking_as_bayes_says():
  # 0.02 * 6 : 0.05 * 2 : 0.01 * 2 = 12 : 10 : 2; a share's sum need not be 1.
  found = rank({"a": 6, "b": 2, "c": 2, "not compared": 5})
  assert [a.code for a in found] == ["a", "b", "c"]
  np.testing.assert_allclose([a.posterior for a in found], [.5, 10/24, 2/24])


def test_code_with_prior_zero_is_last():
  found = rank({"a": 1, "b": 0, "c": 1})
  assert [a.code for a in found] == ["a", "c", "b"]
  assert found[-1].posterior == 0


def test_long_texts_do_not_underflow():
  scores = [Score(-1e5 - x, 9999) for x in (3.0, 0.0, 2000.0)]
  found = attribution.rank(CODES, scores, attribution.log_prior(CODES, None))
  assert [a.code for a in found] == ["b", "a", "c"]
  np.testing.assert_allclose(sum(a.posterior for a in found), 1)
  np.testing.assert_allclose(found[0].posterior, 1 / (1 + np.exp(-3)))


@pytest.mark.parametrize(
    "prior, message",
    [
        ({"a": 1, "b": 1}, "nothing about 'c'"),
        ({"a": 1, "b": -1, "c": 1}, "at least 0"),
        ({"a": 1, "b": float("nan"), "c": 1}, "finite"),
        ({"a": 0, "b": 0, "c": 0}, "not all 0"),
        ({"a": 1, "b": "much", "c": 0}, "must be numbers"),
    ],
)
def test_bad_priors(prior, message):
  with pytest.raises(errors.UserError, match=message):
    rank(prior)


def test_top_k_accuracy():
  scores = np.array([[3, 2, 1], [1, 3, 2], [2, 2, 1], [1, 2, 3]])
  labels = np.array([0, 2, 0, 0])
  accuracy = [attribution.top_k_accuracy(scores, labels, k) for k in (1, 2, 3)]
  assert accuracy == [0.25, 0.75, 1.0]  # The tie in row 2 counts against it.
