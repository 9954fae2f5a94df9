import jax
import numpy as np
import pytest
from decoding_fakes import CONFIG, Characters, model, plain_logits

from ctrl_jax import errors
from ctrl_jax.decoding import Generator, next_tokens


def test_probabilities_are_the_models_own():
  generator, params = model()
  got = next_tokens(generator, Characters(), "Hey", "Books", n=132)
  logits = plain_logits(CONFIG, params, [128, *b"Hey"]).astype(np.float64)
  expected = np.exp(logits) / np.exp(logits).sum()
  assert [t.token_id for t in got[:5]] == np.argsort(-expected)[:5].tolist()
  for token in got:
    assert token.probability == pytest.approx(
        expected[token.token_id], rel=1e-4
    )
  assert sum(t.probability for t in got) == pytest.approx(1, abs=1e-5)
  assert got[0].text == Characters().decode([got[0].token_id])


def test_long_prompt_keeps_the_code_and_the_last_tokens():
  generator, params = model()
  got = next_tokens(generator, Characters(), "x" * 30 + "abc", "Books", n=1)
  shown = [128, *(b"x" * 30 + b"abc")[-23:]]
  assert got[0].token_id == plain_logits(CONFIG, params, shown).argmax()


def test_bad_requests():
  generator, _ = model()
  with pytest.raises(errors.UserError, match="at least 1"):
    next_tokens(generator, Characters(), "a", "Books", n=0)
  with pytest.raises(errors.UserError, match="control code"):
    next_tokens(generator, Characters(), "", None)


def test_broken_parameters():
  _, params = model()
  broken = jax.tree.map(lambda x: x * np.nan, params)
  with pytest.raises(errors.UserError, match="logits are not finite"):
    next_tokens(Generator(CONFIG, broken), Characters(), "a", "Books")
