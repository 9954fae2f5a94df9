"""Texts that are looked for in documents."""

from collections.abc import Iterable, Iterator

_KEY_WORDS = 4


def spaced(text: str) -> str:
  """Returns a text with one space between words, as `Passages` names it."""
  return " ".join(text.split())


class Passages:
  """Finds which of many texts a document holds, however they are spaced.

  Args:
    texts: those with fewer than four words, which might be anywhere, are not
      looked for.
  """

  def __init__(self, texts: Iterable[str]):
    self._texts = {}  # The first words of a text -> texts that begin so.
    for text in texts:
      words = text.split()
      if len(words) >= _KEY_WORDS:
        key = " ".join(words[:_KEY_WORDS])
        self._texts.setdefault(key, []).append(" ".join(words))

  def find(self, document: str) -> Iterator[str]:
    """Yields the texts in a document, `spaced`; one may come twice."""
    if not self._texts:
      return
    words = document.split()
    joined = None
    for i in range(len(words) - _KEY_WORDS + 1):
      candidates = self._texts.get(" ".join(words[i : i + _KEY_WORDS]))
      if candidates:
        joined = joined or " ".join(words)
        yield from (text for text in candidates if text in joined)
