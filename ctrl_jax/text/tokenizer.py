"""The interface that all tokenizers share."""

import abc
import functools
import hashlib
import json
import operator
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from ctrl_jax import errors

CONFIG_FILE = "tokenizer_config.json"


class Tokenizer(abc.ABC):
  """Strings <-> token ids, with control codes as reserved symbols.

  A control code is one or more words, `Reddit r/legaladvice`; each word is a
  token, in most tokenizers a symbol of its own that ordinary text never yields.

  Attributes:
    vocab_size: number of token ids.
    unknown_id: the id of what the vocabulary cannot spell, None where it
      spells everything.
    end_id: the id that marks the end of a document, None where there is none.
    codes: the full control codes, as the configuration wrote them.
    begin_ids: what stands in front of everything that the model reads, before
      a control code, too (Llama's `<s>`).
  """

  vocab_size: int
  unknown_id: int | None
  end_id: int | None
  codes: tuple[str, ...]
  begin_ids: tuple[int, ...] = ()

  @property
  @abc.abstractmethod
  def code_words(self) -> Mapping[str, int]:
    """Every reserved word of a control code and its id."""

  @property
  @abc.abstractmethod
  def tokens(self) -> list[str]:
    """The pieces by id, control codes' words included."""

  @property
  def reserved_ids(self) -> frozenset[int]:
    """Ids that text never yields and generation must not: the codes' words."""
    return frozenset(self.code_words.values())

  @abc.abstractmethod
  def encode(self, text: str) -> list[int]:
    """Returns the ids of `text`, none of them in `reserved_ids`."""

  @abc.abstractmethod
  def decode(self, ids: Iterable[int]) -> str:
    """Returns the text of `ids`; control codes and the end give "".

    Raises:
      errors.UserError: see `check_ids`.
    """

  def check_ids(self, ids: Iterable[int]) -> list[int]:
    """Returns `ids` as a list.

    Raises:
      errors.UserError: one that is no whole number, or outside [0, vocab_size).
    """
    found = []
    for i in ids:
      try:
        found.append(operator.index(i))
      except TypeError as e:
        raise errors.UserError(
            f"Token id {i!r} is no whole number: give ids one after the other."
        ) from e
      if not 0 <= found[-1] < self.vocab_size:
        raise errors.UserError(
            f"Token id {i} is outside the vocabulary of {self.vocab_size}."
        )
    return found

  @abc.abstractmethod
  def pieces(self, text: str) -> list[str]:
    """Returns the pieces `text` is cut into, one an id of `encode`."""

  @abc.abstractmethod
  def files(self) -> dict[str, bytes]:
    """Returns name -> content of every file `load_tokenizer` needs."""

  def code_ids(self, code: str) -> list[int]:
    """Returns `begin_ids` and the ids of a control code, one a word.

    A part of a code is allowed too (`Reddit`): each word is a symbol.

    Raises:
      errors.UserError: a word is not reserved, or `code` is empty.
    """
    words = code.split()
    if not words or any(w not in self.code_words for w in words):
      raise errors.UserError(
          f"Unknown control code {code!r}. {errors.nearest(code, self.codes)}"
      )
    return [*self.begin_ids, *(self.code_words[w] for w in words)]

  def with_codes(self, codes: Sequence[str]) -> "Tokenizer":
    """Returns a tokenizer that knows `codes`, too, if need be a larger one.

    Raises:
      errors.UserError: a code is unknown and this kind cannot grow.
    """
    for code in codes:
      try:
        self.code_ids(code)
      except errors.UserError as e:
        raise errors.UserError(
            f"{e} This kind of tokenizer takes no new codes: use one of these,"
            " or learn a tokenizer (leave tokenizer.path out)."
        ) from e
    return self

  def with_newlines(self, newlines: str) -> "Tokenizer":
    """Returns a tokenizer with another convention for line ends.

    Raises:
      errors.UserError: this kind has none to choose from.
    """
    raise errors.UserError(
        f"newlines={newlines!r}: this tokenizer keeps every line end as it is;"
        " leave the setting out."
    )

  @functools.cached_property
  def hash(self) -> str:
    """SHA-256 over the files, in hexadecimal.

    Data sets and workdirs keep it and compare: `files` must go on to give what
    it gave.
    """
    digest = hashlib.sha256()
    for name, content in sorted(self.files().items()):
      digest.update(f"{name} {len(content)}\n".encode())
      digest.update(content)
    return digest.hexdigest()

  def save(self, folder) -> None:
    """Writes the files `load_tokenizer` needs into `folder`, made if need be.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in self.files().items():
      (folder / name).write_bytes(content)


def check_codes(codes, folder: pathlib.Path) -> None:
  """Checks what a folder's `tokenizer_config.json` says of control codes.

  Raises:
    errors.UserError: it is no list of strings that can be written down.
  """
  try:
    if not isinstance(codes, list):
      raise TypeError
    "".join(codes).encode("utf-8")
  except (TypeError, UnicodeEncodeError) as e:
    raise errors.UserError(
        f"{folder / CONFIG_FILE}: `codes` must be a list of strings."
    ) from e


def config_file(kind: str, codes: Sequence[str], **fields) -> bytes:
  """Returns the content of `tokenizer_config.json`."""
  config = {"kind": kind, "codes": list(codes), **fields}
  return (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode()
