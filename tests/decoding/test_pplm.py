"""PPLM as a user calls it."""

import jax
import numpy as np
import pytest
from pplm_model import WORDS, Words, make_model

from ctrl_jax import errors
from ctrl_jax.decoding import pplm, pplm_discriminator

pytestmark = pytest.mark.slow


PROMPTS = ["the river", "a judge sees the bank", ""]
OPTIONS = dict(max_new_tokens=5, temperature=0.0, batch_size=4)
STRONG = OPTIONS | dict(stepsize=0.5, gamma=1.0, kl_scale=0.0)


@pytest.fixture(scope="module")
def model():
  return make_model()


def ids(results):
  return [[sample.token_ids for sample in samples] for samples in results]


def test_nothing_moved_is_the_model(model):
  own = model.generate(
      PROMPTS, "Books", max_new_tokens=5, temperature=0.0, penalty=1.0
  )
  call = lambda **kw: ids(
      pplm.generate(model, PROMPTS, "Books", bag=["law"], **OPTIONS, **kw)
  )
  assert call(stepsize=0.0, gm_scale=0.0) == ids(own)
  assert call(num_iterations=0) == ids(own)


def test_a_bag_for_all_or_one_a_prompt(model):
  before = jax.tree.map(np.array, model.params)
  bags = [["fig"], ["court", "law"], ["plum"]]
  found = pplm.generate(model, PROMPTS, "Books", bag=bags, **STRONG)
  for i, (samples, bag) in enumerate(zip(found, bags)):
    assert any(WORDS.index(w) in samples[0].token_ids for w in bag), i
    alone = pplm.generate(model, PROMPTS[i], "Books", bag=bag, **STRONG)
    assert ids(alone)[0] == ids(found)[i]
  one = pplm.generate(model, PROMPTS, "Books", bag=["fig"], **STRONG)
  assert ids(one)[0] == ids(found)[0]
  assert one[0][0].code == "Books" and one[0][0].prompt == PROMPTS[0]
  jax.tree.map(np.testing.assert_array_equal, before, model.params)


def test_samples_depend_on_the_seed_not_on_the_batch(model):
  def call(**kw):
    return ids(pplm.generate(
        model, PROMPTS[:2], "Books", bag=["law"],
        **dict(max_new_tokens=4, num_samples=2, batch_size=4) | kw,
    ))

  first = call()
  assert first == call() == call(batch_size=3)
  assert first != call(seed=1)
  assert first[0][0] != first[0][1]


def test_stop_strings_and_the_end(model):
  call = lambda **kw: pplm.generate(
      model, PROMPTS[0], "Books", bag=["fig"], **STRONG | kw
  )[0][0]
  whole, found = call(), call(stop="fig")
  assert found.finished == "stop" and "fig" not in found.text
  assert whole.text.startswith(found.text + "fig")
  assert len(call(min_new_tokens=5).token_ids) == 5


def test_a_discriminator(model):
  fruit = [f"the {w} falls and the pear" for w in ("apple", "pear", "plum")]
  law = [f"the {w} sees a law of" for w in ("judge", "court", "law")]
  texts, labels = fruit + law, ["fruit"] * 3 + ["law"] * 3
  found = pplm_discriminator.train(
      model, texts, labels, epochs=60, learning_rate=0.05
  )

  def log_p(target, **kw):
    results = pplm.generate(
        model, PROMPTS[:2], discriminator=found, target=target, **OPTIONS, **kw
    )
    full = [s[0].prompt + s[0].text for s in results]
    place = found.classes.index(target)
    means = pplm_discriminator.mean_states(model, full)
    return found.log_probs(means)[:, place].mean()

  for target in found.classes:
    assert log_p(target, stepsize=1.0) > log_p(target, stepsize=0.0)


def test_long_words():
  make = lambda *words, **kw: pplm.bag_of_words(Words(), 18, words, **kw)
  assert make("law", "judge").nonzero()[0].tolist() == [4, 5]
  with pytest.raises(errors.UserError, match="'law-judge' is 2 tokens"):
    make("law-judge")
  assert make("law-judge", long_words="first").nonzero()[0].tolist() == [4]
  skipped = make("law-judge", "fig", long_words="skip")
  assert skipped.nonzero()[0].tolist() == [10]
  with pytest.raises(errors.UserError, match="none of 'law-judge'"):
    make("law-judge", long_words="skip")
  with pytest.raises(errors.UserError, match="no words"):
    make()
  with pytest.raises(errors.UserError, match="'last'"):
    make("law", long_words="last")


D = pplm_discriminator.Discriminator(
    np.zeros((16, 2), np.float32), np.zeros(2, np.float32), ("good", "bad")
)
NARROW = pplm_discriminator.Discriminator(
    np.zeros((8, 2), np.float32), np.zeros(2, np.float32), ("good", "bad")
)


@pytest.mark.parametrize("fields, message", [
    (dict(), "either a bag"),
    (dict(bag=["law"], discriminator=D), "either a bag"),
    (dict(bag=[["law"], ["fig"]]), "2 bags of words for 1 prompts"),
    (dict(bag=[" "]), "no word"),
    (dict(discriminator=D, target="god"), "Did you mean 'good'|no class 'god'"),
    (dict(discriminator=D, target=["good"] * 2), "2 targets for 1"),
    (dict(discriminator=NARROW, target="good"), "width 8"),
    (dict(bag=["law"], step_size=1.0), "Unknown option 'step_size'"),
    (dict(bag=["law"], stepsize=-1.0), "stepsize=-1.0"),
    (dict(bag=["law"], top_k=-1), "top_k=-1"),
    (dict(bag=["law"], max_new_tokens=23), "model's window of 24"),
    (dict(bag=["law"], stepsize=float("inf")), "stepsize"),
])
def test_bad_calls(model, fields, message):
  with pytest.raises(errors.UserError, match=message):
    pplm.generate(model, "the river", **dict(max_new_tokens=2) | fields)
  with pytest.raises(errors.UserError, match="2 codes"):
    pplm.generate(model, "the", ["Books"] * 2, bag=["law"], max_new_tokens=2)
