"""Known answers of the released CTRL: a random model must fail them."""

import jax
import numpy as np
import pytest
import shared_data

from ctrl_jax import language_model, text
from ctrl_jax.interop import self_test
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig


@pytest.fixture(scope="module")
def random_model():
  tok = text.load_tokenizer(shared_data.path("tokenizers/ctrl"))
  config = TransformerConfig(
      vocab_size=tok.vocab_size, d_model=8, d_ff=8, num_layers=1, num_heads=2,
      max_length=64,
  )
  params = transformer.init(config, jax.random.key(0))
  return language_model.LanguageModel(config, params, tokenizer=tok)


def test_a_random_model_fails(random_model):
  (sizes,) = self_test.run(random_model)
  assert not sizes.passed and sizes.found == "(8, 8, 2, 246534)"
  found = list(self_test.checks(random_model))
  assert [c.passed for c in found] == [True] + [False] * 7
  table = self_test.table(found)
  assert table.endswith("1 of 8 known answers hold.")
  assert "found    " in table


def test_the_right_answers_pass(random_model, monkeypatch):
  """A model that gives them: every check is one that can hold."""
  from types import SimpleNamespace as Namespace

  class Right:
    tokenizer = random_model.tokenizer
    def generate(self, prompts, **options):
      return [[Namespace(token_ids=self_test._GREEDY)]]

    def score(self, texts):
      return [Namespace(log_prob=-9.2149 * 3, num_tokens=3)]

    def attribute(self, texts):
      known = self_test._PERPLEXITIES[texts[0]]
      return [[Namespace(code=c, perplexity=v * (1 + 5e-4))
               for c, v in known.items()]]

  assert all(c.passed for c in self_test.checks(Right()))
  assert np.isclose(self_test._LOSS, 9.21)
