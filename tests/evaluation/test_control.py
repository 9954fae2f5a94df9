"""Control measured on samples whose domain is known."""

import types

import evaluation_fakes as fakes
import numpy as np
import pytest

from ctrl_jax.evaluation import control
from ctrl_jax.evaluation.baseline import Baseline

CODES = ["Cats", "Dogs"]


class Obedient:
  """Writes what it is told to; Dogs when told nothing."""

  def __init__(self):
    self.seeds = []

  def generate(self, prompts, code, num_samples, seed, **options):
    self.seeds.append(seed)
    assert options == dict(temperature=0.5)
    return [
        [
            types.SimpleNamespace(
                text=fakes.document(code or "Dogs", 12, seed=seed + i)
            )
            for i in range(num_samples)
        ]
        for _ in prompts
    ]


@pytest.fixture(scope="module")
def judge():
  pairs = [
      (fakes.document(c, 12, seed=500 + i), c) for c in CODES for i in range(20)
  ]
  return Baseline(*zip(*pairs))


def measure(judge, model):
  return control.measure(
      model, judge, CODES, num_samples=5, prompts=["a", "b"],
      options=dict(temperature=0.5, seed=7),
  )


def test_obedient_model(judge):
  model = Obedient()
  found = measure(judge, model)
  assert model.seeds == [7, 8, 9]
  assert found["samples_a_code"] == 6  # Three for each of two prompts.
  assert found["right_code"] == 1
  assert found["wrong_code"] == 0
  assert (found["no_code"], found["no_code_most"]) == (0.5, 1)
  assert found["confusion"] == [[1, 0], [0, 1], [0, 1]]
  assert found["by_code"]["Dogs"] == dict(
      right_code=1, wrong_code=0, no_code=1
  )
  assert set(found["examples"]) == {"Cats", "Dogs", ""}
  assert "100.0%" in control.table(found)


def test_deaf_model(judge):
  class Deaf(Obedient):

    def generate(self, prompts, code, **options):
      return super().generate(prompts, "Cats", **options)

  found = measure(judge, Deaf())
  assert found["right_code"] == found["wrong_code"] == found["chance"] == 0.5
  np.testing.assert_array_equal(found["confusion"], [[1, 0]] * 3)
