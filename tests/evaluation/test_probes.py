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
