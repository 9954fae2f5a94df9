"""The share of samples that hold their keyword."""

import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import intervals, keyword_accuracy


def test_overall_and_by_keyword():
  texts = ["So it is.", "it is SO", "also it is", "then", "", "nothing"]
  keywords = ["so", "so", "so", "then", "then", "in fact"]
  found = keyword_accuracy.measure(texts, keywords)
  assert found["value"] == 0.5 and found["samples"] == 6
  assert (found["low"], found["high"]) == intervals.wilson(3, 6)[1:]
  by = found["by_keyword"]
  assert list(by) == ["in fact", "so", "then"]
  assert [by[k]["value"] for k in by] == [0.0, 2 / 3, 0.5]
  assert [by[k]["samples"] for k in by] == [1, 3, 2]


def test_words_are_whole_across_the_prefix():
  # "know" + "now": no word "now" stands there.
  assert keyword_accuracy.hits(["now"], ["now"]) == [True]
  assert keyword_accuracy.hits(["now"], ["now"], ["I k"]) == [False]
  assert keyword_accuracy.hits([" now"], ["now"], ["I k"]) == [True]
  assert keyword_accuracy.hits(["-known"], ["known"], ["well"]) == [False]


def test_the_prompt_does_not_count():
  assert keyword_accuracy.hits([" it is"], ["so"], ["so"]) == [False]


def test_limits():
  assert keyword_accuracy.measure(["so"] * 9, ["so"] * 9)["value"] == 1.0
  assert keyword_accuracy.measure([""] * 9, ["so"] * 9)["value"] == 0.0


def test_bad_input():
  with pytest.raises(errors.UserError, match="no samples"):
    keyword_accuracy.measure([], [])
  with pytest.raises(errors.UserError, match="2 texts, 1 keywords"):
    keyword_accuracy.measure(["a", "b"], ["a"])
