import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import intervals, shares


def test_over_all_and_by_group():
  found = shares.measure([True, False, True], ["b", "a", "b"], "topic")
  assert list(found) == ["value", "low", "high", "samples", "by_topic", "hits"]
  assert found["hits"] == "101"
  assert (found["low"], found["high"]) == intervals.wilson(2, 3)[1:]
  assert {k: (x["value"], x["samples"]) for k, x in found["by_topic"].items()
          } == {"a": (0.0, 1), "b": (1.0, 2)}


def test_of_nothing():
  with pytest.raises(errors.UserError, match="no samples"):
    shares.measure([], [], "topic")
