"""What a model is asked to write; the rest is in test_cvae_methods.py."""

import types

import pytest
from decoding_fakes import Characters

from ctrl_jax.experiments import cvae_point

PAIRS = [("a\n", "one two three"), ("b\n", "four five six")]


class Model:
  """Writes the same to everyone and keeps what it was asked."""

  tokenizer = Characters()

  def __init__(self, cvae=None):
    self.cvae = cvae
    self.asked = {}

  def generate(self, prompts, code, **options):
    self.asked = dict(prompts=prompts, code=code, **options)
    return [[types.SimpleNamespace(text="one four!")] for _ in prompts]


def cvae(has_latent):
  config = types.SimpleNamespace(has_latent=has_latent)
  return types.SimpleNamespace(config=config)


@pytest.mark.parametrize("own, expected", [
    (None, {}), (cvae(False), {}), (cvae(True), dict(latent="prior")),
])
def test_a_latent_is_sampled_where_there_is_one(own, expected):
  model = Model(own)
  cvae_point.samples(
      model, PAIRS, "Text", attribute=False, max_new_tokens=9, seed=1
  )
  assert model.asked == dict(
      prompts=["a\n", "b\n"], code="Text", max_new_tokens=9, seed=1
  ) | expected


def test_references_are_as_long_as_samples_may_be():
  model = Model()
  found = cvae_point.samples(
      model, PAIRS, "Text", attribute=True, max_new_tokens=7
  )
  assert model.asked["attribute"] == ["a", "b"]
  # "one two" and "four fi": one word of two is right, of each.
  assert found["rouge"]["rouge1"]["recall"]["value"] == 0.5
  assert found["examples"][1] == dict(prompt="b", text="one four!")
