"""SLOR beside the formula, and where it is known."""

import evaluation_fakes as fakes
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import slor
from ctrl_jax.evaluation.unigram import Unigram
from ctrl_jax.language_model import LanguageModel

TOKENIZER = fakes.tokenizer()
TEXTS = ["cat purr meow", " dog", "wing"]
PREFIXES = ["kitten", "bark woof", "sing"]


def distribution(seed=0, **fields):
  p = np.random.default_rng(seed).dirichlet(np.ones(TOKENIZER.vocab_size))
  fields = dict(
      log_probs=np.log(p), num_tokens=9, alpha=1.0,
      tokenizer_hash=TOKENIZER.hash,
  ) | fields
  return Unigram(**fields)


def scorer(params=None):
  return LanguageModel(
      fakes.config(), fakes.params() if params is None else params,
      tokenizer=TOKENIZER,
  )


def bias_only(log_probs):
  """A model that gives every token its unigram probability."""
  params = jax.tree.map(jnp.zeros_like, fakes.params())
  [path] = [
      path for path, leaf in jax.tree_util.tree_leaves_with_path(params)
      if leaf.shape == (fakes.config().vocab_size,)
  ]
  return jax.tree_util.tree_map_with_path(
      lambda p, leaf: jnp.asarray(log_probs, leaf.dtype) if p == path else leaf,
      params,
  )


def by_hand(ids, first, unigram):
  """(ln p_M - ln p_u) / |S| of ids[first:]."""
  difference = fakes.plain_log_prob(ids, first) - sum(
      unigram.log_probs[i] for i in ids[first:]
  )
  return difference / (len(ids) - first)


@pytest.mark.parametrize("code", [None, "Cats", "Big r/birds"])
@pytest.mark.parametrize("with_end", [False, True])
def test_is_the_formula(code, with_end):
  unigram = distribution()
  found = slor.score(
      scorer(), unigram, TEXTS, code=code, with_end=with_end
  )
  code_ids = TOKENIZER.code_ids(code) if code else []
  end = [TOKENIZER.end_id] if with_end else []
  expected = [
      by_hand(code_ids + TOKENIZER.encode(t) + end, len(code_ids) or 1, unigram)
      for t in TEXTS
  ]
  np.testing.assert_allclose(found.slor, expected, rtol=1e-5)


def test_sample_and_continuation():
  unigram = distribution()
  ids = [TOKENIZER.encode(p + t) for p, t in zip(PREFIXES, TEXTS)]
  found = slor.score(scorer(), unigram, TEXTS, PREFIXES, code="Dogs")
  code_ids = TOKENIZER.code_ids("Dogs")
  np.testing.assert_allclose(
      found.slor,
      [by_hand(code_ids + i, len(code_ids), unigram) for i in ids], rtol=1e-5,
  )
  found = slor.score(
      scorer(), unigram, TEXTS, PREFIXES, code="Dogs", over="continuation"
  )
  # " dog" begins with a space: the prefix's tokens are the sample's first.
  first = len(code_ids + TOKENIZER.encode(PREFIXES[1]))
  np.testing.assert_allclose(
      found.slor[1], by_hand(code_ids + ids[1], first, unigram), rtol=1e-5
  )


def test_a_unigram_model_is_worth_nothing():
  unigram = distribution(seed=3)
  found = slor.measure(
      scorer(bias_only(unigram.log_probs)), unigram, TEXTS, PREFIXES,
      code="Cats", under_test=[],
  )
  for name in ("value", "low", "high"):
    np.testing.assert_allclose(found[name], 0, atol=1e-5)
  assert found["samples"] == 3 and found["empty"] == 0


def test_a_uniform_unigram_leaves_the_loss():
  """Then SLOR is ln V - loss."""
  size = TOKENIZER.vocab_size
  unigram = distribution(log_probs=np.full(size, -np.log(size)))
  found = slor.measure(scorer(), unigram, TEXTS[:1], code="Cats", under_test=[])
  np.testing.assert_allclose(
      found["value"], np.log(size) + found["log_prob_per_token"], rtol=1e-6
  )
  assert found["low"] == found["value"] == found["high"]


def test_empty_samples_are_counted():
  found = slor.measure(
      scorer(), distribution(), ["", "cat dog", ""], code="Cats", under_test=[]
  )
  assert (found["samples"], found["empty"]) == (1, 2)
  with pytest.raises(errors.UserError, match="None of 1 samples"):
    slor.measure(scorer(), distribution(), [""], under_test=[])


def test_the_scorer_is_not_under_test():
  params, other = fakes.params(), fakes.params(seed=1)
  slor.check_scorer(scorer(), [other, {"base": other}])
  for same in (scorer(), params, {"base": params, "auxiliary": other}):
    with pytest.raises(errors.UserError, match=r"number 2\), or its base"):
      slor.check_scorer(scorer(), [other, same])
    with pytest.raises(errors.UserError, match="Train another"):
      slor.measure(scorer(), distribution(), TEXTS, under_test=[other, same])


@pytest.mark.parametrize(
    "unigram, options, message",
    [
        (dict(), dict(over="samples"), "Did you mean 'sample'"),
        (dict(), dict(over="continuation"), "needs the prefixes"),
        (dict(), dict(prefixes=["a"]), "1 prefixes for 3 texts"),
        (dict(tokenizer_hash="x"), dict(), "another tokenizer"),
        (dict(), dict(code="Fish"), "Unknown control code"),
    ],
)
def test_bad_input(unigram, options, message):
  with pytest.raises(errors.UserError, match=message):
    slor.score(scorer(), distribution(**unigram), TEXTS, **options)
