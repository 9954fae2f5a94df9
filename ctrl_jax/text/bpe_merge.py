"""Byte-pair encoding of one word: the pair of the best rank merges first."""

import heapq
import sys
from collections.abc import Mapping

from ctrl_jax.text import bpe_files

Merge = tuple[str, str]

_END = bpe_files.END
# Words of more symbols are merged another way.
_LONG = 100


def merge(word: str, ranks: Mapping[Merge, int]) -> list[str]:
  """Merges a word's characters, the pair of the best rank first.

  >>> merge("low", {("l", "o"): 0, ("lo", "w</w>"): 1})
  ['low</w>']
  """
  symbols = list(word)
  if not symbols:
    return [_END]
  symbols[-1] += _END
  if len(symbols) > _LONG:
    return _merge_long(symbols, ranks)
  none, get = sys.maxsize, ranks.get
  found = [get(pair, none) for pair in zip(symbols, symbols[1:])]
  while found:
    best = min(found)
    if best == none:
      break
    # Every place where the pair stands, from the left; then the ranks of the
    # pairs that are new.
    at, merged = found.index(best), []
    while at >= 0:
      symbols[at:at + 2] = [symbols[at] + symbols[at + 1]]
      del found[at]
      merged.append(at)
      if at:
        found[at - 1] = none
      if at < len(found):
        found[at] = none
      at = found.index(best, at) if best in found[at:] else -1
    for at in merged:
      if at:
        found[at - 1] = get((symbols[at - 1], symbols[at]), none)
      if at < len(found):
        found[at] = get((symbols[at], symbols[at + 1]), none)
  return symbols


def _merge_long(symbols: list[str], ranks: Mapping[Merge, int]) -> list[str]:
  """As `merge`, in n log n: a blob of a megabyte is one word."""
  n, get = len(symbols), ranks.get
  following, before = list(range(1, n + 1)), list(range(-1, n - 1))
  heap = []

  def consider(i):
    """Pair i stands at symbols i and following[i]; "" is merged away."""
    if i >= 0 and symbols[i] and following[i] < n:
      rank = get((symbols[i], symbols[following[i]]))
      if rank is not None:
        heapq.heappush(heap, (rank, i))

  for i in range(n - 1):
    consider(i)
  while heap:
    best, places = heap[0][0], []
    while heap and heap[0][0] == best:
      places.append(heapq.heappop(heap)[1])
    merged = []
    for i in places:
      j = following[i]
      if j < n and symbols[i] and get((symbols[i], symbols[j])) == best:
        symbols[i] += symbols[j]
        symbols[j] = ""
        following[i] = following[j]
        if following[j] < n:
          before[following[j]] = i
        merged.append(i)
    for i in merged:
      consider(before[i])
      consider(i)
  return [symbol for symbol in symbols if symbol]
