import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import probes


def test_probes_find_what_is_there_and_nothing_else():
  rng = np.random.default_rng(0)
  labels = rng.integers(0, 3, 300)
  x = np.eye(3)[labels] * 4 + rng.normal(size=(300, 3)) * 0.3
  parts = x[:200], labels[:200], x[200:], labels[200:]
  for accuracy in (probes.knn_accuracy, probes.linear_probe_accuracy):
    assert accuracy(*parts) == 1.0
    assert accuracy(0 * x[:200], labels[:200], 0 * x[200:], labels[200:]) < 0.5
  with pytest.raises(errors.UserError, match="smaller k"):
    probes.knn_accuracy(x[:5], labels[:5], x, labels)


def test_measure_has_intervals_and_the_most_frequent_label():
  x = np.repeat(np.eye(2) * 4, 10, 0)
  labels = ["a"] * 10 + ["b"] * 10
  found = probes.measure(x, labels, x[5:13], labels[5:13], k=3)
  assert found["knn"] == found["linear"]
  assert found["knn"]["value"] == 1 and found["knn"]["low"] < 0.7
  assert found["most_frequent"]["value"] == 5 / 8
  with pytest.raises(errors.UserError, match="label 'a'"):
    probes.measure(x[:9], labels[:9], x, labels)
