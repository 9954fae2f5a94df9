"""Keywords in sentences: (keyword, prefix, continuation that holds it).

The task of Auxiliary Tuning's paper (arXiv 2006.16823): continue a prefix so
that the text holds a keyword of a finite inventory.
"""

import collections
import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ctrl_jax import errors
from ctrl_jax.data import files

# A word character, or a hyphen or apostrophe inside a word: "well" is no word
# of "well-known", nor "can" of "can't".
_NOT_BEFORE = r"(?<!\w)(?<!\w[-'\u2019])"
_NOT_AFTER = r"(?!\w|[-'\u2019]\w)"


class Triple(NamedTuple):
  """A sentence that holds a keyword, in two parts.

  Attributes:
    keyword: as the inventory writes it.
    prefix: the sentence's first words; they do not hold the keyword.
    text: the rest, which does; it begins with the white space that follows the
      prefix, so `prefix + text` is the sentence.
    document: short hash of the document it comes from.
  """

  keyword: str
  prefix: str
  text: str
  document: str


def holds_keyword(text: str, keyword: str, start: int = 0) -> bool:
  """Returns whether `text` holds `keyword` as whole words, in any case.

  A space in the keyword stands for any white space; a comma at its end must be
  there. Training data and the measure of accuracy both ask this function.

  Args:
    text: where to look.
    keyword: at least one character that is no white space.
    start: look from here on. What stands before is seen: half a word is none.

  Example:

  >>> holds_keyword("It is, IN\\nfact, well-known.", "in fact")
  True
  >>> holds_keyword("It is, in fact, well-known.", "well")
  False
  """
  return _pattern(keyword).search(text, start) is not None


@functools.lru_cache(maxsize=4096)
def _pattern(keyword: str) -> re.Pattern:
  assert keyword.strip(), "an empty keyword is in every text"
  words = keyword.split()
  before = _NOT_BEFORE if re.match(r"\w", words[0]) else ""
  after = _NOT_AFTER if re.search(r"\w$", words[-1]) else ""
  middle = r"\s+".join(map(re.escape, words))
  return re.compile(before + middle + after, re.IGNORECASE)


class Inventory:
  """A finite set of keywords.

  Args:
    keywords: at least one; those that differ in case alone are one, and each
      holds a letter or digit.

  Attributes:
    keywords: in the order given, each once.

  Raises:
    errors.UserError: no keyword, or one without a letter or digit.
  """

  def __init__(self, keywords: Iterable[str]):
    unique = {}
    for keyword in keywords:
      unique.setdefault(" ".join(keyword.split()).casefold(), keyword)
    self._spelling = unique
    self.keywords = tuple(unique.values())
    if not self.keywords:
      raise errors.UserError("The inventory has no keyword.")
    # Few sentences hold a given keyword: its first word is looked up first.
    self._by_first_word = collections.defaultdict(list)
    for keyword in self.keywords:
      words = _words(keyword)
      if not words:
        raise errors.UserError(
            f"The keyword {keyword!r} holds no letter or digit."
        )
      self._by_first_word[words[0]].append(keyword)

  @classmethod
  def read(cls, file: str, *, drop_commas: bool = False) -> "Inventory":
    """Reads keywords, one a line; blank lines are left out.

    An underscore stands for a space (`as_a_result`, as in the list of
    Discovery's 174 markers).

    Args:
      file: the file; may hold `~` and $VARIABLES.
      drop_commas: take `however,` for `however`: otherwise a comma at the end
        is a part of the keyword, which tells the marker `well,` from `well`.

    Raises:
      errors.UserError: no such file, or no keyword in it.
    """
    [file] = files.find([file])[:1]
    lines = files.lines(file)
    keywords = (" ".join(x.replace("_", " ").split()) for x in lines)
    if drop_commas:
      keywords = (k.rstrip(",").rstrip() for k in keywords)
    try:
      return cls(filter(None, keywords))
    except errors.UserError as e:
      raise errors.UserError(f"{file!r}: {e} Write one a line.") from e

  def spelling(self, keyword: str) -> str | None:
    """Returns how the inventory writes a keyword, None if it has it not."""
    return self._spelling.get(" ".join(keyword.split()).casefold())

  def find(self, sentence: str) -> list[tuple[str, int]]:
    """Returns the keywords of a sentence with where each first stands."""
    found = []
    for word in dict.fromkeys(_words(sentence)):
      for keyword in self._by_first_word.get(word, ()):
        if match := _pattern(keyword).search(sentence):
          found.append((keyword, match.start()))
    return sorted(found, key=lambda item: (item[1], item[0]))


def _words(text: str) -> list[str]:
  # Lower case as re.IGNORECASE has it, character by character.
  return re.findall(r"\w+", text.lower())


@dataclasses.dataclass(frozen=True)
class Lengths:
  """Bounds in words (runs of anything but white space), ends included.

  Attributes:
    min_prefix: of a prefix.
    max_prefix: of a prefix.
    min_sentence: of a sentence.
    max_sentence: of a sentence.
  """

  min_prefix: int = 3
  max_prefix: int = 8
  min_sentence: int = 8
  max_sentence: int = 40

  def __post_init__(self):
    if not (
        1 <= self.min_prefix <= self.max_prefix
        and self.min_prefix < self.max_sentence
        and 1 <= self.min_sentence <= self.max_sentence
    ):
      raise errors.UserError(
          f"A prefix of {self.min_prefix} to {self.max_prefix} words in a"
          f" sentence of {self.min_sentence} to {self.max_sentence} cannot be:"
          " each minimum is 1 or more and at most its maximum, and a prefix is"
          " shorter than the sentence."
      )


def from_sentence(
    sentence: str,
    inventory: Inventory,
    lengths: Lengths,
    digest: bytes,
    document: str,
) -> tuple[Triple | None, str]:
  """Makes a triple of a sentence, if it can be one.

  Of several keywords one is chosen, and of several lengths of the prefix one,
  both evenly by the digest.

  Args:
    sentence: without white space at its ends.
    inventory: the keywords.
    lengths: bounds.
    digest: hash of the sentence, 32 bytes.
    document: goes into the triple.

  Returns:
    The triple and "", or None and why not.
  """
  ends = [match.end() for match in re.finditer(r"\S+", sentence)]
  if not lengths.min_sentence <= len(ends) <= lengths.max_sentence:
    return None, "sentence too short or long"
  found = inventory.find(sentence)
  if not found:
    return None, "no keyword"
  # For each keyword, the ends of prefixes that stop before it.
  choices = [
      (keyword, [end for end in ends[: lengths.max_prefix] if end < start])
      for keyword, start in found
  ]
  choices = [
      (keyword, before[lengths.min_prefix - 1 :])
      for keyword, before in choices
      if len(before) >= lengths.min_prefix
  ]
  if not choices:
    return None, "keyword within the shortest prefix"
  keyword, cuts = choices[_number(digest[24:28]) % len(choices)]
  cut = cuts[_number(digest[28:32]) % len(cuts)]
  return Triple(keyword, sentence[:cut], sentence[cut:], document), ""


def _number(digest: bytes) -> int:
  return int.from_bytes(digest, "big")


def from_row(
    row: Mapping, inventory: Inventory | None, document: str
) -> tuple[Triple | None, str]:
  """Makes a triple of a ready row, if it is a good one.

  Args:
    row: `keyword`, `prefix` and `text`, the last being the whole sentence that
      begins with the prefix.
    inventory: keywords outside it are refused; None takes all.
    document: goes into the triple.

  Returns:
    The triple and "", or None and why not.
  """
  sentence, prefix = row["text"], row["prefix"].rstrip()
  keyword = " ".join(row["keyword"].split())
  if inventory is not None:
    keyword = inventory.spelling(keyword)
  rest = sentence[len(prefix):]
  if not keyword:
    return None, "keyword not in the inventory"
  if not prefix:
    return None, "empty prefix"
  if not sentence.startswith(prefix):
    return None, "prefix not at the start"
  if rest and not rest[0].isspace():
    return None, "prefix ends within a word"
  if holds_keyword(prefix, keyword):
    return None, "keyword in the prefix"
  if not holds_keyword(rest, keyword):
    return None, "keyword not in the continuation"
  return Triple(keyword, prefix, rest, document), ""
