"""Diversity of samples: distinct-n, self-BLEU, repetition.

All take samples that are cut into tokens: any hashable ones, `words` makes
them of text. All depend on the number and the length of the samples: compare
like with like.
"""

import collections
import math
import re
from collections.abc import Hashable, Sequence
from typing import Any

from ctrl_jax import errors
from ctrl_jax.evaluation import intervals

Tokens = Sequence[Hashable]


def words(text: str) -> list[str]:
  """Returns a text's words and punctuation marks, in lower case."""
  return re.findall(r"\w+|[^\w\s]", text.lower())


def distinct(samples: Sequence[Tokens], n: int) -> float:
  """Returns different n-grams / all n-grams, over all samples together.

  Li et al. 2016 (arXiv 1510.03055). 0 when no sample has n tokens.

  Example:

  >>> distinct([["a", "b"], ["a", "c"]], 1)
  0.75
  """
  grams = [gram for sample in samples for gram in _grams(sample, n)]
  return len(set(grams)) / max(len(grams), 1)


def repetition(sample: Tokens, n: int) -> float:
  """Returns the share of a sample's n-grams that stood in it before.

  "seq-rep-n" of Welleck et al. 2020 (arXiv 1908.04319): 1 - different / all.
  0 when the sample has fewer than n tokens.

  Example:

  >>> repetition("a b a b".split(), 2)  # a b, b a, a b
  0.333...
  """
  grams = _grams(sample, n)
  return 1 - len(set(grams)) / len(grams) if grams else 0.0


def self_bleu(samples: Sequence[Tokens], n: int = 4) -> float:
  """Returns the mean BLEU of each sample against all the others.

  Zhu et al. 2018 (arXiv 1802.01886); 1 when all are alike. BLEU as NLTK's
  `sentence_bleu` has it with equal weights on 1- to n-grams and the smoothing
  `method1` (a count of 0 becomes 0.1), but in time proportional to the text,
  not to its square.

  Args:
    samples: at least two.
    n: longest n-grams.

  Raises:
    errors.UserError: fewer than two samples.
  """
  if len(samples) < 2:
    raise errors.UserError(
        f"Self-BLEU compares samples: {len(samples)} cannot be compared."
    )
  counts = [
      [collections.Counter(_grams(s, order)) for s in samples]
      for order in range(1, n + 1)
  ]
  highest = [_two_highest(of_order) for of_order in counts]
  lengths = collections.Counter(map(len, samples))
  total = 0.0
  for i, sample in enumerate(samples):
    precisions = [
        _precision(counts[order][i], i, highest[order]) for order in range(n)
    ]
    if sample and precisions[0][0]:
      total += math.exp(
          sum(math.log((hits or 0.1) / size) for hits, size in precisions) / n
      ) * _brevity(len(sample), lengths)
  return total / len(samples)


def _two_highest(counts: Sequence[collections.Counter]) -> dict:
  """Returns gram -> (highest count, whose it is, highest count of others)."""
  found = {}
  for i, of_sample in enumerate(counts):
    for gram, count in of_sample.items():
      first, owner, second = found.get(gram, (0, -1, 0))
      if count > first:
        found[gram] = (count, i, first)
      elif count > second:
        found[gram] = (first, owner, count)
  return found


def _precision(counts, i: int, highest) -> tuple[int, int]:
  """Returns hits (each gram at most as often as in one other) and size."""
  hits = 0
  for gram, count in counts.items():
    first, owner, second = highest[gram]
    hits += min(count, second if owner == i else first)
  return hits, max(sum(counts.values()), 1)


def _brevity(length: int, lengths: collections.Counter) -> float:
  """Returns the penalty beside the nearest length of another sample."""
  others = [n for n, count in lengths.items() if count > (n == length)]
  nearest = min(others, key=lambda n: (abs(n - length), n))
  return 1.0 if length > nearest else math.exp(1 - nearest / length)


def _grams(sample: Tokens, n: int) -> list[tuple]:
  return [tuple(sample[i : i + n]) for i in range(len(sample) - n + 1)]


def measure(texts: Sequence[str]) -> dict[str, Any]:
  """Returns all of them for the words of some texts.

  Returns:
    distinct_1, distinct_2, distinct_3; self_bleu_4; repetition_4 with its 95 %
    bootstrap interval; samples, words.

  Raises:
    errors.UserError: fewer than two texts.
  """
  samples = [words(text) for text in texts]
  repeated = [repetition(sample, 4) for sample in samples]
  return dict(
      **{f"distinct_{n}": distinct(samples, n) for n in (1, 2, 3)},
      self_bleu_4=self_bleu(samples, 4),
      repetition_4=intervals.bootstrap_mean(repeated)._asdict(),
      samples=len(samples),
      words=sum(map(len, samples)),
  )
