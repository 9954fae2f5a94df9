import types

import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import two_prompts

TEXTS = ["dragon castle knight", "rocket planet orbit", "soup kitchen onion"]


def test_likeness_by_hand():
  """Three parts: the text's words, half of them, none; cosines 1, 1/sqrt 2, 0.

  In a corpus in which every word stands once, weights are equal.
  """
  samples = ["dragon castle knight"] * 3
  found = two_prompts.likeness(samples, TEXTS, TEXTS, parts=1)
  np.testing.assert_allclose(found, [[1], [0], [0]], atol=1e-12)
  one = two_prompts.likeness(
      ["castle moon rocket planet onion the"], ["castle planet"], TEXTS
  )
  # "castle moon": moon is not in the corpus; "rocket planet"; "onion the".
  np.testing.assert_allclose(one, [[0.5**0.5, 0.5, 0]])


def test_a_sample_that_turns_from_one_story_to_the_other():
  second = [*TEXTS[1:], TEXTS[0]]
  own = [f"{a} {a} {a}" for a in TEXTS]
  turning = [f"{a} {a} {b}" for a, b in zip(TEXTS, second)]
  found = two_prompts.measure(turning, own, TEXTS, TEXTS)
  values = lambda rows: [round(row["value"], 9) for row in rows]
  assert values(found["controlled"]["to_first"]) == [1, 1, 0]
  assert values(found["controlled"]["to_second"]) == [0, 0, 1]
  assert values(found["own"]["to_first"]) == [1, 1, 1]
  assert values(found["effect"]) == [0, 0, 2]
  nothing = two_prompts.measure(own, own, TEXTS, TEXTS)
  assert values(nothing["effect"]) == [0, 0, 0]
  assert nothing["samples"] == 3


def test_short_and_empty_samples_are_like_nothing():
  found = two_prompts.likeness(["", "dragon"], TEXTS[:2], TEXTS)
  np.testing.assert_array_equal(found[0], [0, 0, 0])
  assert found[1, 0] == 0  # Of the second text.
  found = two_prompts.likeness(["dragon"], TEXTS[:1], TEXTS)
  np.testing.assert_allclose(found, [[3**-0.5, 0, 0]])


def test_latents_are_the_next_pairs():
  asked = {}

  class Model:

    def encode(self, items, code):
      asked["items"] = items
      return np.arange(3.0)[:, None], None

    def generate(self, prompts, code, latent, **options):
      asked["latent"] = latent[:, 0].tolist()
      return [[types.SimpleNamespace(text=p + "!")] for p in prompts]

  pairs = [(f"{i}\n", f"text {i}") for i in range(3)]
  found = two_prompts.sample(Model(), pairs, "Text")
  assert found == ["0\n!", "1\n!", "2\n!"]
  assert asked == dict(items=["0\n", "1\n", "2\n"], latent=[1, 2, 0])
  two_prompts.sample(Model(), pairs, "Text", shift=0, source="posterior")
  assert asked == dict(items=pairs, latent=[0, 1, 2])
  with pytest.raises(errors.UserError, match="Did you mean 'posterior'"):
    two_prompts.sample(Model(), pairs, "Text", source="posterio")


def test_bad_input():
  with pytest.raises(errors.UserError, match="2 samples and 1 texts"):
    two_prompts.likeness(["a", "b"], ["c"], TEXTS)
  with pytest.raises(errors.UserError, match="no words"):
    two_prompts.likeness(["a"], ["c"], ["the of"])
