"""Merging, against what fastBPE's source says."""

import random

from ctrl_jax.text import bpe_merge


def _merge_as_printed(word, ranks):
  """What fastBPE does in process_bpe: all places of the best pair."""
  symbols = [*word[:-1], word[-1] + "</w>"]
  while len(symbols) > 1:
    pairs = [p for p in zip(symbols, symbols[1:]) if p in ranks]
    if not pairs:
      break
    first, second = min(pairs, key=ranks.get)
    merged, just_merged = [], False
    for i, symbol in enumerate(symbols):
      if (not just_merged and symbol == first
          and symbols[i + 1:i + 2] == [second]):
        merged.append(first + second)
        just_merged = True
      else:
        if not just_merged:
          merged.append(symbol)
        just_merged = False
    symbols = merged
  return symbols


def test_merging_is_the_originals_on_random_ranks():
  draw = random.Random(0)
  for _ in range(300):
    symbols, ranks = ["a", "b", "c", "a</w>", "b</w>", "c</w>"], {}
    for rank in range(30):
      first, second = draw.choice(symbols), draw.choice(symbols)
      if not first.endswith("</w>") and first + second not in symbols:
        ranks[first, second] = rank
        symbols.append(first + second)
    for _ in range(20):
      word = "".join(draw.choices("abc", k=draw.randint(1, 12)))
      expected = _merge_as_printed(word, ranks)
      assert bpe_merge.merge(word, ranks) == expected
      symbols = bpe_merge.merge(word, {})
      assert bpe_merge._merge_long(symbols, ranks) == expected
  word = "abc" * 60
  assert bpe_merge.merge(word, ranks) == _merge_as_printed(word, ranks)
