"""RAKE: a text's key phrases (Rose, Engel, Cramer and Cowley 2010).

Candidates are the runs of words between stop words and punctuation; words are
runs of letters, their combining marks, and digits. A word's score is its degree
over its frequency: degree counts the words of the candidates it stands in,
itself included. A phrase's score is the sum of its words'. FIST (Fang et al.
2021) puts such phrases between prompt and story.
"""

import collections
import functools
import re
import sys
import unicodedata
from collections.abc import Collection


@functools.cache
def stop_words() -> frozenset[str]:
  """scikit-learn's English stop words."""
  from sklearn.feature_extraction import text

  return text.ENGLISH_STOP_WORDS


@functools.cache
def _words_or_breaks() -> re.Pattern[str]:
  # `\w` lacks the marks (Unicode's M): the vowel signs of India's scripts,
  # accents that stand behind their letter, as in "i\u0307", lower case of
  # "\u0130". Joiners (U+200C, U+200D) shape letters within a word.
  marks = "".join(
      c for c in map(chr, range(sys.maxunicode + 1))
      if unicodedata.category(c)[0] == "M"
  )
  # They begin at U+0300; to look for that first is several times as fast.
  run = rf"[^\W_]+(?:(?![\0-\u02ff])[{marks}]+[^\W_]*)*"
  return re.compile(
      rf"{run}(?:['\u2019\u200c\u200d-]{run})*|[^\w\s]|\n"
  )


def scores(
    text: str, stops: Collection[str] | None = None, max_words: int = 4
) -> dict[str, float]:
  """Returns phrase -> score, lower case, in the order they come in the text.

  Longer candidates than `max_words` are none: they count for no word.

  Args:
    text: any.
    stops: lower case; None for English.
    max_words: of a phrase.
  """
  stops = stop_words() if stops is None else stops
  candidates, candidate = [], []
  for token in [*_words_or_breaks().findall(text.lower()), "."]:
    is_word = token[0].isalnum() and token not in stops
    if is_word and not token.isnumeric():
      candidate.append(token)
      continue
    if 0 < len(candidate) <= max_words:
      candidates.append(tuple(candidate))
    candidate = []
  frequency, degree = collections.Counter(), collections.Counter()
  for words in candidates:
    for word in words:
      frequency[word] += 1
      degree[word] += len(words)
  return {
      " ".join(words): sum(degree[w] / frequency[w] for w in words)
      for words in candidates
  }


def outline(text: str, stops: Collection[str] | None = None) -> list[str]:
  """Returns each paragraph's best phrases, in the order of the text, once each.

  min(5, max(2, int(length / 228 + 1.5))) a paragraph of so many characters, as
  FIST's code has it; of equal scores the earlier phrase. A paragraph ends with
  a line.
  """
  found = {}
  for paragraph in text.splitlines():
    count = min(5, max(2, int(len(paragraph) / 228 + 1.5)))
    scored = scores(paragraph, stops)
    best = set(sorted(scored, key=lambda p: -scored[p])[:count])
    found.update((phrase, None) for phrase in scored if phrase in best)
  return list(found)
