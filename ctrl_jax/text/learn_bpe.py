"""Learns fastBPE's `codes` and `vocab` from text (learnbpe and getvocab).

Ties: of pairs that occur equally often fastBPE takes the one whose symbols it
met first in the order of a C++ hash map, which differs between machines. Here
it is the pair whose symbols come first in the order they were made: characters
in the order in which the text brings them, then merged symbols.

Source: glample/fastBPE 036711f, fastBPE.hpp, learnbpe and getvocab.
"""

import collections
import heapq
import re
from collections.abc import Iterable, Sequence

from ctrl_jax import errors
from ctrl_jax.text import bpe_merge, fastbpe


def count_words(texts: Iterable[str]) -> dict[str, int]:
  """Counts words, what stands between spaces and line ends, in order."""
  counts = collections.Counter()
  for text in texts:
    counts.update(word for word in re.split("[ \n]", text) if word)
  return dict(counts)


def learn_merges(
    word_counts: dict[str, int], num_merges: int
) -> list[tuple[bpe_merge.Merge, int]]:
  """Learns merges, the most frequent pair first.

  Args:
    word_counts: word -> how often it occurs, from `count_words`.
    num_merges: how many.

  Returns:
    (pair, its count when it was merged); fewer when no pair is left.

  Raises:
    errors.UserError: no words, or `num_merges` below 1.
  """
  if num_merges < 1:
    raise errors.UserError(f"num_merges={num_merges} must be at least 1.")
  if not word_counts:
    raise errors.UserError("There is no text to learn merges from.")
  ids, symbols, words = {}, [], []

  def number(symbol):
    if symbol not in ids:
      ids[symbol] = len(symbols)
      symbols.append(symbol)
    return ids[symbol]

  for word in word_counts:
    words.append([number(s) for s in bpe_merge.merge(word, {})])
  counts = list(word_counts.values())

  pairs = collections.Counter()
  places = collections.defaultdict(set)  # pair -> words that hold it
  for i, word in enumerate(words):
    for pair in zip(word, word[1:]):
      pairs[pair] += counts[i]
      places[pair].add(i)
  # The heap may hold old counts: an entry counts only if it is still true.
  heap = [(-count, pair) for pair, count in pairs.items()]
  heapq.heapify(heap)
  found = []
  while heap and len(found) < num_merges:
    negative, pair = heapq.heappop(heap)
    if pairs[pair] != -negative or not negative:
      continue
    first, second = pair
    found.append(((symbols[first], symbols[second]), -negative))
    new = number(symbols[first] + symbols[second])
    changed = set()
    for i in places.pop(pair):
      old = words[i]
      merged = _replace(old, pair, new)
      if len(merged) == len(old):
        continue
      for p in zip(old, old[1:]):
        pairs[p] -= counts[i]
        changed.add(p)
      for p in zip(merged, merged[1:]):
        pairs[p] += counts[i]
        places[p].add(i)
        changed.add(p)
      words[i] = merged
    del pairs[pair]
    for p in changed:
      if pairs[p] > 0:
        heapq.heappush(heap, (-pairs[p], p))
  return found


def _replace(word: list[int], pair: tuple[int, int], new: int) -> list[int]:
  merged, i = [], 0
  while i < len(word):
    if tuple(word[i:i + 2]) == pair:
      merged.append(new)
      i += 2
    else:
      merged.append(word[i])
      i += 1
  return merged


def count_pieces(
    word_counts: dict[str, int], merges: list[bpe_merge.Merge]
) -> list[tuple[str, int]]:
  """Counts the pieces that `merges` cut the words into.

  Returns:
    (piece, count), the most frequent first, of equal ones in the order of
    their UTF-8 bytes: the lines of `vocab`.
  """
  ranks = {pair: i for i, pair in enumerate(merges)}
  counts = collections.Counter()
  for word, count in word_counts.items():
    *inner, last = bpe_merge.merge(word, ranks)
    for symbol in inner:
      counts[symbol + "@@"] += count
    counts[last.removesuffix("</w>")] += count
  return sorted(counts.items(), key=lambda x: (-x[1], x[0].encode("utf-8")))


def train(
    texts: Iterable[str], codes: Sequence[str], num_merges: int
) -> fastbpe.FastBPE:
  """Learns merges and vocabulary; control codes get tokens of their own.

  Args:
    texts: documents to learn from; their words are held in memory once.
    codes: control codes.
    num_merges: how many merges.

  Raises:
    errors.UserError: no text, or `num_merges` below 1.
  """
  words = count_words(texts)
  merges = [pair for pair, _ in learn_merges(words, num_merges)]
  vocab = [piece for piece, _ in count_pieces(words, merges)]
  if "<unk>" in vocab:  # Some corpora hold it; the id is another's.
    vocab.remove("<unk>")
  return fastbpe.FastBPE(merges, vocab, codes)
