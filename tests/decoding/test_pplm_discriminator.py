"""PPLM's discriminator by itself; steering with it is in test_pplm."""

import numpy as np
import pytest
from pplm_model import CONFIG, make_model

from ctrl_jax import errors
from ctrl_jax.decoding import pplm_discriminator
from ctrl_jax.models import transformer


@pytest.fixture(scope="module")
def model():
  return make_model()


def test_it_learns_and_the_same_call_gives_the_same(model):
  fruit = [f"the {w} falls and the pear" for w in ("apple", "pear", "plum")]
  law = [f"the {w} sees a law of" for w in ("judge", "court", "law")]
  texts, labels = fruit + law, ["fruit"] * 3 + ["law"] * 3
  train = lambda **kw: pplm_discriminator.train(
      model, texts, labels, epochs=60, learning_rate=0.05, **kw
  )
  found = train()
  assert found.classes == ("fruit", "law") and found.kernel.shape == (16, 2)
  np.testing.assert_array_equal(train().kernel, found.kernel)
  assert (train(seed=1).kernel != found.kernel).any()
  means = pplm_discriminator.mean_states(model, texts)
  assert (found.log_probs(means).argmax(1) == [0, 0, 0, 1, 1, 1]).all()


def test_the_mean_is_over_a_texts_own_tokens(model):
  one = pplm_discriminator.mean_states(model, ["the river"])
  both = pplm_discriminator.mean_states(
      model, ["the river", "the bank falls", "a"]
  )
  np.testing.assert_allclose(one[0], both[0], atol=1e-5)
  hidden = transformer.hidden_states(
      CONFIG, model.params, np.array([[1, 2]], np.int32)
  )
  np.testing.assert_allclose(one[0], hidden[0].mean(0), atol=1e-5)
  coded = pplm_discriminator.mean_states(model, ["the river"], "Books")
  assert (coded != one).any()


@pytest.mark.parametrize("arguments, message", [
    ((["the"], ["x", "y"]), "1 texts and 2 labels"),
    ((["the", "a"], ["x", "x"]), "there are 1"),
    ((["the", ""], ["x", "y"]), "Text 2 of 2 is empty"),
])
def test_bad_training(model, arguments, message):
  with pytest.raises(errors.UserError, match=message):
    pplm_discriminator.train(model, *arguments)

