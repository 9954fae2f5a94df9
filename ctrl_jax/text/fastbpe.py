"""CTRL's tokenizer: fastBPE's `codes` and `vocab`, applied as fastBPE does.

Words are what stands between spaces (U+0020 alone: other white space belongs
to words). A word begins as its characters, the last one marked `</w>`; the
pair of the best rank merges until none does; a piece that is not in the
vocabulary is taken apart again along its merges ("vocabulary limiting").
Pieces but a word's last are written with `@@`.

The vocabulary's ids are its lines', and three follow, as in the release
(generation.py:48-49): the empty word, `<unk>` and the line end. Behind them
come words of control codes that are not in the vocabulary.

An empty word, between two spaces, is a token, so that `decode` gives back what
`encode` took. (fastBPE's file mode keeps the spaces too; its Python binding,
and so generation.py, drops them.)

Sources: glample/fastBPE 036711f, fastBPE.hpp; salesforce/ctrl a089a0c.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ctrl_jax import errors
from ctrl_jax.text import bpe_files, bpe_merge, tokenizer

CODES_FILE = "codes"
VOCAB_FILE = "vocab"
# How a line end is written; they differ in the word before it and in how many
# survive.
NEWLINES = ("generation", "training", "huggingface")

# Behind pieces but a word's last.
GOES_ON = "@@"
UNKNOWN = "<unk>"

_END = bpe_files.END
# Words whose ids are kept; a word costs some 200 bytes.
_CACHED_WORDS = 500_000


class FastBPE(tokenizer.Tokenizer):
  """A vocabulary and ranked merges.

  An ordinary word may be a control code (`Legal`), as in the release; a code
  that is none is a symbol of its own, which text never yields.

  Attributes:
    newlines: what `encode` does with line ends when not told:
      "generation": lines are cut into words on their own and joined with the
        line end's token, as generation.py does; `decode` is the inverse.
      "training": a line end is a character inside a word, so that the piece
        before it is written as if the word went on (`e.@@ \\n And`), and white
        space is lost, as make_tf_records.py does.
      "huggingface": the same, and of several line ends one survives.
  """

  end_id = None

  def __init__(
      self,
      merges: Sequence[bpe_merge.Merge],
      vocab: Sequence[str],
      codes: Sequence[str] = (),
      newlines: str = "generation",
  ):
    """Puts a tokenizer together; `fastbpe_files.load` reads one.

    Args:
      merges: pairs of symbols, the best rank first.
      vocab: tokens in the order of their ids, without the three special ones.
      codes: control codes.
      newlines: see the class.

    Raises:
      errors.UserError: a token that is there twice, or an unknown convention.
    """
    self._check_newlines(newlines)
    self.newlines = newlines
    self.codes = tuple(codes)
    self._merges = merges
    self._tokens = [*vocab, "", UNKNOWN, "\n"]
    self._ids = {token: i for i, token in enumerate(self._tokens)}
    if len(self._ids) < len(self._tokens):
      raise errors.UserError(
          f"The vocabulary has {len(self._tokens)} tokens, of which"
          f" {len(self._tokens) - len(self._ids)} are there twice (\"\","
          f" {UNKNOWN} and the line end are added by this program)."
      )
    self._ranks = {pair: i for i, pair in enumerate(merges)}
    self._ids_of = {}  # word -> the ids of its pieces
    self._parts = None
    self.unknown_id = self._ids[UNKNOWN]
    self._vocab = vocab
    self._code_words = {}
    for word in (w for code in codes for w in code.split()):
      if word in self._ids:
        self._code_words[word] = self._ids[word]
      elif word not in self._code_words:
        self._code_words[word] = len(self._tokens)
        self._tokens.append(word)
    self.vocab_size = len(self._tokens)

  @property
  def tokens(self) -> list[str]:
    """The pieces by id, as fastBPE writes them."""
    return list(self._tokens)

  @property
  def merges(self) -> Sequence[bpe_merge.Merge]:
    """The pairs of symbols, the best rank first."""
    return self._merges

  @property
  def code_words(self) -> Mapping[str, int]:
    """Every word of a control code and its id, maybe an ordinary token's."""
    return self._code_words

  @property
  def reserved_ids(self) -> frozenset[int]:
    """The codes' words that are not in the vocabulary."""
    return frozenset(range(self.unknown_id + 2, self.vocab_size))

  def encode(self, text: str, newlines: str | None = None) -> list[int]:
    """Returns the ids of `text`; what the vocabulary cannot spell is `<unk>`,
    one a character.

    Args:
      text: any string.
      newlines: the convention; the tokenizer's own when None.
    """
    newlines = self._check_newlines(newlines)
    if newlines != "generation":
      get, unknown = self._ids.get, self.unknown_id
      return [get(piece, unknown) for piece in self._written(text, newlines)]
    found, end = [], self._ids["\n"]
    for i, line in enumerate(text.split("\n") if text else ()):
      if i:
        found.append(end)
      for word in line.split(" "):
        ids = self._ids_of.get(word)
        found += self._word_ids(word) if ids is None else ids
    return found

  def pieces(self, text: str, newlines: str | None = None) -> list[str]:
    """Returns the pieces of `text`, one an id, as fastBPE writes them."""
    newlines = self._check_newlines(newlines)
    if newlines != "generation":
      return list(self._written(text, newlines))
    found = []
    for i, line in enumerate(text.split("\n") if text else ()):
      if i:
        found.append("\n")
      for word in line.split(" "):
        found += self._word_pieces(word)
    return found

  def decode(self, ids: Iterable[int]) -> str:
    """Returns the text of `ids`, `<unk>` for what was unknown.

    Raises:
      errors.UserError: see `check_ids`.
    """
    parts, glue = [], ""
    for i in self.check_ids(ids):
      if i > self.unknown_id + 1:
        continue
      token = self._tokens[i]
      if token == "\n":
        parts.append(token)
        glue = ""
        continue
      parts.append(glue)
      # A word may be "@@" itself.
      goes_on = token.endswith(GOES_ON) and token != GOES_ON
      parts.append(token[:-2] if goes_on else token)
      glue = "" if goes_on else " "
    return "".join(parts)

  def files(self) -> dict[str, bytes]:
    """Returns the configuration, `codes` and `vocab`, counts left out."""
    merges = "".join(f"{a} {b} 0\n" for a, b in self._merges)
    vocab = "".join(f"{token} 0\n" for token in self._vocab)
    return {
        tokenizer.CONFIG_FILE: tokenizer.config_file(
            "fastbpe", self.codes, newlines=self.newlines
        ),
        CODES_FILE: merges.encode("utf-8"),
        VOCAB_FILE: vocab.encode("utf-8"),
    }

  def __reduce__(self):  # Without the caches.
    return FastBPE, (self._merges, self._vocab, self.codes, self.newlines)

  def with_codes(self, codes: Sequence[str]) -> "FastBPE":
    """Returns this tokenizer with `codes` known, too."""
    codes = tuple(dict.fromkeys([*self.codes, *codes]))
    return FastBPE(self._merges, self._vocab, codes, self.newlines)

  def with_newlines(self, newlines: str) -> "FastBPE":
    """Returns this tokenizer with another convention for line ends."""
    return FastBPE(self._merges, self._vocab, self.codes, newlines)

  def _check_newlines(self, newlines: str | None) -> str:
    newlines = getattr(self, "newlines", "") if newlines is None else newlines
    if not isinstance(newlines, str) or newlines not in NEWLINES:
      raise errors.UserError(
          f"newlines={newlines!r} is no convention for line ends."
          f" {errors.nearest(str(newlines), NEWLINES)}"
      )
    return newlines

  def _written(self, text: str, newlines: str) -> Iterator[str]:
    """Pieces under the two conventions in which a line end is in a word."""
    words = (
        text.split(" ") if newlines == "training"
        else re.findall(r"\S+\n?", text)
    )
    for word in words:
      written = " ".join(self._word_pieces(word)) if word else ""
      # What the originals do to fastBPE's output: it cuts other white space,
      # and `\n@@` into a line end and a bare mark.
      for piece in re.findall(r"\S+|\n", written):
        if piece != GOES_ON:
          yield piece

  def _word_ids(self, word: str) -> list[int]:
    ids = [
        self._ids.get(piece, self.unknown_id)
        for piece in self._word_pieces(word)
    ]
    if len(self._ids_of) >= _CACHED_WORDS:
      self._ids_of.clear()
    self._ids_of[word] = ids
    return ids

  def _word_pieces(self, word: str) -> list[str]:
    symbols = bpe_merge.merge(word, self._ranks)
    last = len(symbols) - 1
    found = []
    for i, symbol in enumerate(symbols):
      found += self._limit(symbol, i == last)
    return found

  def _limit(self, symbol: str, final: bool) -> list[str]:
    """A symbol as pieces that are in the vocabulary, where it can be."""
    piece = symbol[: -len(_END)] if final else symbol + GOES_ON
    if piece in self._ids:
      return [piece]
    if self._parts is None:  # Few symbols are missing, if any.
      self._parts = {a + b: (a, b) for a, b in self._merges}
    if symbol not in self._parts:
      return [piece]
    first, second = self._parts[symbol]
    return self._limit(first, False) + self._limit(second, final)
