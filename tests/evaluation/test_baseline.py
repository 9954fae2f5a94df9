"""The classifier on toy texts."""

import evaluation_fakes as fakes
import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation.baseline import Baseline


def toy(**counts):
  pairs = [
      (fakes.document(code, 12, seed=i), code)
      for code, n in counts.items() for i in range(n)
  ]
  return Baseline(*zip(*pairs))


def test_tells_domains_apart():
  judge = toy(Cats=20, Dogs=20)
  texts = [fakes.document(c, 12, seed=99) for c in ("Dogs", "Cats", "Dogs")]
  p = judge.probabilities(texts, ["Cats", "never seen", "Dogs"])
  np.testing.assert_array_equal(p.argmax(-1), [2, 0, 2])
  np.testing.assert_allclose(p.sum(-1), 1)
  assert not p[:, 1].any()
  assert judge.num_documents == 40


def test_classes_weigh_the_same_whatever_their_size():
  # A text that says nothing leans to the class with more documents: to 0.82
  # without class weights.
  p = toy(Cats=90, Dogs=10).probabilities(["nothing known"], ["Cats", "Dogs"])
  assert p[0, 0] < 0.7


def test_no_texts():
  assert toy(Cats=3, Dogs=3).probabilities([], ["Cats"]).shape == (0, 1)


def test_one_code_is_not_enough():
  with pytest.raises(errors.UserError, match="at least two"):
    toy(Cats=3)


def test_hits():
  judge = toy(Cats=20, Dogs=20)
  texts = [fakes.document(c, 12, seed=99) for c in ("Dogs", "Cats", "Dogs")]
  assert judge.hits(texts, ["Dogs", "Dogs", "never seen"]) == [
      True, False, False
  ]
  assert judge.hits([], []) == []
