"""ROUGE by hand: which column is which."""

import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import rouge


def values(found):
  return {
      kind: [found[kind][n]["value"] for n in ("precision", "recall", "f1")]
      for kind in rouge.KINDS
  }


def test_by_hand():
  # Unigrams: the x1, cat, sat of 4 and of 6; bigrams: "the cat" of 3 and of 5;
  # longest common subsequence: the cat sat.
  found = values(
      rouge.measure(["the cat then sat"], ["The cat, it had sat down"])
  )
  assert found["rouge1"] == pytest.approx([3 / 4, 3 / 6, 0.6])
  assert found["rouge2"] == pytest.approx([1 / 3, 1 / 5, 0.25])
  assert found["rougeL"] == pytest.approx([3 / 4, 3 / 6, 0.6])


def test_order_counts_for_l_alone():
  found = values(rouge.measure(["b a"], ["a b"]))
  assert found["rouge1"] == [1.0] * 3
  assert found["rougeL"] == [0.5] * 3


def test_counts_are_those_of_multisets():
  assert values(rouge.measure(["a a a"], ["a b"]))["rouge1"] == pytest.approx(
      [1 / 3, 1 / 2, 0.4]
  )


def test_mean_and_limits():
  found = rouge.measure(["a b", "c", ""], ["a b", "d", "e"])
  assert found["pairs"] == 3
  assert found["rouge1"]["f1"]["value"] == pytest.approx(1 / 3)
  assert found["rouge1"]["f1"]["low"] == 0.0
  assert found["rouge1"]["f1"]["high"] <= 1.0


def test_bad_input():
  for predictions, references in (([], []), (["a"], ["a", "b"])):
    with pytest.raises(errors.UserError, match="compares pairs"):
      rouge.measure(predictions, references)
