"""Running text -> sentences, by rule."""

import re
from collections.abc import Iterator

# An end mark, with the quotes and brackets that close behind it.
_END = re.compile(r"[.!?\u2026]+[\"'\u201d\u2019)\]*_]*(?= )")
_COMPLETE = re.compile(r"[.!?\u2026]+[\"'\u201d\u2019)\]*_]*$")
# What may stand in front of a sentence's first letter.
_OPENING = "\"'\u201c\u2018([*_"
# A dot behind these ends no sentence; nor does one behind an initial ("J.").
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st sr jr vs e.g i.e cf fig figs eq eqs al resp approx"
    " dept gen col capt lt rev hon mt".split()
)
_LAST_WORD = re.compile(r"[^\s(\[\"'\u201c\u2018]+$")


def split(text: str) -> Iterator[str]:
  """Yields the complete sentences of a text.

  A sentence begins with a capital letter or a digit (behind opening quotes or
  not) and ends with a full stop, a question or an exclamation mark; what lies
  between such sentences (headings, lists, verse) is left out. Runs of white
  space, line ends too, become one space: where a book's lines were wrapped is
  no part of its sentences. A blank line always ends one.

  Example:

  >>> list(split("Mr. Fox ran.  It\\nrained!\\n\\nA heading\\n\\nOn he went."))
  ['Mr. Fox ran.', 'It rained!', 'On he went.']
  """
  for paragraph in re.split(r"\n\s*\n", text):
    for sentence in _pieces(" ".join(paragraph.split())):
      if _begins(sentence) and _COMPLETE.search(sentence):
        yield sentence


def _pieces(text: str) -> Iterator[str]:
  """Cuts a paragraph wherever a sentence ends and another may begin."""
  start = 0
  for match in _END.finditer(text):
    # Few characters: a copy of the rest each time would be quadratic.
    following = text[match.end() + 1 : match.end() + 5]
    if _begins(following) and not _is_abbreviation(
        text[start : match.start()], match[0]
    ):
      yield text[start : match.end()]
      start = match.end() + 1
  yield text[start:]


def _begins(text: str) -> bool:
  first = text.lstrip(_OPENING)[:1]
  return first.isupper() or first.isdigit()


def _is_abbreviation(before: str, mark: str) -> bool:
  if mark != ".":
    return False
  match = _LAST_WORD.search(before)
  word = match[0] if match else ""
  is_initial = len(word) == 1 and word.isupper() and word != "I"
  return is_initial or word.lower() in _ABBREVIATIONS
