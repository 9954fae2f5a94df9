"""Diversity by hand and beside NLTK."""

import random

import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import diversity


def texts(number, length, kinds, seed=0):
  rng = random.Random(seed)
  letters = "abcdefghijklmnop"[:kinds]
  return [rng.choices(letters, k=rng.randint(*length)) for _ in range(number)]


def test_words():
  assert diversity.words("It's  Caf\u00e9!\n") == [
      "it", "'", "s", "caf\u00e9", "!"
  ]


@pytest.mark.parametrize(
    "samples, n, expected",
    [
        (["a b", "a c"], 1, 3 / 4),
        (["a b", "a c"], 2, 1.0),
        (["a a a a"], 1, 1 / 4),
        (["a a a a"], 2, 1 / 3),
        (["a b", "a b"], 2, 1 / 2),
        (["a"], 2, 0.0),
        ([], 1, 0.0),
    ],
)
def test_distinct(samples, n, expected):
  assert diversity.distinct([s.split() for s in samples], n) == expected


@pytest.mark.parametrize(
    "sample, n, expected",
    [
        ("a b c d", 1, 0.0),
        ("a b a b", 2, 1 / 3),
        ("a a a a", 2, 2 / 3),
        ("a", 2, 0.0),
        ("", 1, 0.0),
    ],
)
def test_repetition(sample, n, expected):
  assert diversity.repetition(sample.split(), n) == pytest.approx(expected)


def test_self_bleu_limits():
  assert diversity.self_bleu([list("abcdef")] * 3) == pytest.approx(1.0)
  assert diversity.self_bleu([list("abcd"), list("efgh")]) == 0.0
  with pytest.raises(errors.UserError, match="cannot be compared"):
    diversity.self_bleu([["a"]])


@pytest.mark.parametrize("kinds", [3, 8, 16])
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("length", [(5, 30), (0, 6), (3, 3)])
def test_self_bleu_is_nltk_s(kinds, n, length):
  bleu = pytest.importorskip("nltk.translate.bleu_score")
  samples = texts(12, length, kinds, seed=kinds)
  smoothing = bleu.SmoothingFunction().method1
  expected = [
      bleu.sentence_bleu(
          samples[:i] + samples[i + 1 :], sample, [1 / n] * n, smoothing
      ) if sample else 0.0
      for i, sample in enumerate(samples)
  ]
  assert diversity.self_bleu(samples, n) == pytest.approx(
      sum(expected) / len(samples)
  )


def test_measure():
  found = diversity.measure(["a b c d a b c d", "a b c d"])
  assert found["distinct_1"] == 4 / 12
  assert found["samples"] == 2 and found["words"] == 12
  # 4-grams of the first: abcd bcda cdab dabc abcd; of the second none again.
  assert found["repetition_4"]["value"] == pytest.approx(0.1)
  assert found["repetition_4"]["low"] == 0.0
  assert 0 < found["self_bleu_4"] < 1


def test_many_samples_take_time_in_proportion():
  """Every sample against every other would be 16 million comparisons."""
  assert 0 < diversity.self_bleu(texts(4000, (20, 20), 16)) < 1
