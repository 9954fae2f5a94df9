"""Scores beside a plain log-softmax of full logits."""

import dataclasses

import evaluation_fakes as fakes
import jax
import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import score, windows

CONFIG = fakes.config()
PARAMS = fakes.params()


plain = fakes.plain_log_prob


def random_ids(length, seed=0):
  rng = np.random.default_rng(seed)
  return rng.integers(0, CONFIG.vocab_size, length).tolist()


def test_is_the_sum_of_log_probabilities():
  tokens = random_ids(9)
  with_code, without = score.score(
      CONFIG, PARAMS, [([3], tokens), ([], tokens)]
  )
  assert with_code.num_tokens == 9
  assert without.num_tokens == 8  # Nothing predicts the first.
  np.testing.assert_allclose(
      with_code.log_prob, plain([3, *tokens], 1), rtol=1e-5
  )
  np.testing.assert_allclose(without.log_prob, plain(tokens, 1), rtol=1e-5)
  np.testing.assert_allclose(
      with_code.perplexity, np.exp(-plain([3, *tokens], 1) / 9), rtol=1e-5
  )


def test_long_text_is_scored_in_windows():
  tokens = random_ids(50)
  [found] = score.score(CONFIG, PARAMS, [([3, 4], tokens)])
  cut = windows.cut(0, [3, 4], tokens, CONFIG.max_length)
  assert len(cut) > 3
  assert found.num_tokens == 50
  np.testing.assert_allclose(
      found.log_prob, sum(plain(w.ids, w.first) for w in cut), rtol=1e-5
  )


def test_context_helps_long_texts_only_as_far_as_the_window():
  tokens = random_ids(30)
  whole, half = (
      score.score(CONFIG, PARAMS, [([3], tokens)], window=w)[0] for w in (16, 8)
  )
  assert whole.num_tokens == half.num_tokens == 30
  assert abs(whole.log_prob - half.log_prob) > 1e-3


def test_does_not_depend_on_the_batch(monkeypatch):
  pairs = [([3], random_ids(n, seed=n)) for n in range(1, 40, 3)]
  together = score.score(CONFIG, PARAMS, pairs)
  alone = [score.score(CONFIG, PARAMS, [pair])[0] for pair in pairs]
  monkeypatch.setattr(score, "_BATCH_TOKENS", 64)
  small = score.score(CONFIG, PARAMS, pairs[::-1])[::-1]
  for a, b, c in zip(together, alone, small):
    assert a.num_tokens == b.num_tokens == c.num_tokens
    np.testing.assert_allclose([b.log_prob, c.log_prob], a.log_prob, rtol=1e-5)


def test_does_not_depend_on_the_chunk(monkeypatch):
  pairs = [([3], random_ids(n, seed=n)) for n in (5, 13, 15)]
  whole = score.score(CONFIG, PARAMS, pairs)
  # Another configuration, so that the function is compiled anew.
  other = dataclasses.replace(CONFIG, dropout=0.2)
  monkeypatch.setattr(score, "_CHUNK_LOGITS", 11 * CONFIG.vocab_size)
  chunked = score.score(other, PARAMS, pairs)
  np.testing.assert_allclose(
      [s.log_prob for s in chunked], [s.log_prob for s in whole], rtol=1e-5
  )


def test_padded_vocabulary_changes_nothing():
  pairs = [([3], random_ids(9))]
  padded = dataclasses.replace(CONFIG, vocab_multiple=128)
  extra = padded.padded_vocab_size - CONFIG.vocab_size
  assert extra
  params = dict(PARAMS)
  params["embedding"] = {
      "table": np.pad(PARAMS["embedding"]["table"], ((0, extra), (0, 0)))
  }
  params["head"] = {"bias": np.pad(PARAMS["head"]["bias"], (0, extra))}
  [a] = score.score(CONFIG, PARAMS, pairs)
  [b] = score.score(padded, params, pairs)
  np.testing.assert_allclose(a.log_prob, b.log_prob, rtol=1e-6)


def test_nothing_to_score():
  found = score.score(CONFIG, PARAMS, [([3], []), ([], [5]), ([], [])])
  assert [(s.log_prob, s.num_tokens) for s in found] == [(0, 0)] * 3
  assert score.score(CONFIG, PARAMS, []) == []


def test_broken_parameters():
  params = jax.tree.map(lambda x: x * np.nan, PARAMS)
  with pytest.raises(errors.UserError, match="not finite"):
    score.score(CONFIG, params, [([3], [1, 2])])


def test_code_as_long_as_the_window():
  with pytest.raises(errors.UserError, match="leaves no room"):
    score.score(CONFIG, PARAMS, [([3] * 16, [1, 2])])


def test_bucket():
  lengths = [score.bucket(n, 256) for n in range(1, 257)]
  assert sorted(set(lengths)) == [16, 24, 32, 48, 64, 96, 128, 192, 256]
  assert all(b >= n for n, b in enumerate(lengths, 1))
  assert score.bucket(90, 90) == 90
  assert score.bucket(5, 12) == 12
