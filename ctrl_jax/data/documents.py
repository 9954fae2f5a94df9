"""Documents: rendered records, each in one split, exact duplicates removed."""

import hashlib
import heapq
import itertools
import pathlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ctrl_jax import errors
from ctrl_jax.data import passages, sources, templates


class Document(NamedTuple):
  """A document's text in two parts.

  Attributes:
    prompt: the part the loss leaves out; "" unless the source has a target.
    text: the rest.
    is_pair: whether the source has a target.
    attribute: what the text obeys; "" for nothing.
  """

  prompt: str
  text: str
  is_pair: bool
  attribute: str = ""

  @property
  def whole(self) -> str:
    """The whole text."""
    return self.prompt + self.text

  @property
  def identity(self) -> str:
    """What makes two documents the same one."""
    return f"{self.whole}\0{self.attribute}" if self.attribute else self.whole

  @property
  def is_empty(self) -> bool:
    """Whether there is nothing to learn from."""
    return not self.text.strip()


def read(source: sources.Source) -> Iterator[Document]:
  """Yields a source's documents, at most `max_documents`.

  Raises:
    errors.UserError: see `sources.records` and `templates.render`.
  """
  limit = source.max_documents or None
  for record in itertools.islice(sources.records(source), limit):
    text, target, attribute = (
        templates.render(template, record.fields, record.where)
        for template in (source.template, source.target, source.attribute)
    )
    if source.target:
      yield Document(text, target, True, attribute)
    else:
      yield Document("", text, False, attribute)


class Splitter:
  """Puts each document into a split by a hash of its text alone.

  Args:
    seed: salt of the hash.
    validation: share of documents in "validation".
    test: share of documents in "test".

  Raises:
    errors.UserError: shares that cannot be.
  """

  def __init__(self, seed: int, validation: float, test: float):
    # NaN compares as False.
    if not (validation >= 0 <= test and validation + test < 1):
      raise errors.UserError(
          "data.validation_fraction and data.test_fraction must be 0 or more,"
          f" and their sum, {validation + test}, below 1."
      )
    self._salt = f"{seed}\n".encode()
    self._validation = validation
    self._test = test

  def digest(self, text: str) -> bytes:
    """Returns the salted hash of a text, 32 bytes."""
    return hashlib.sha256(self._salt + text.encode()).digest()

  def split(self, source: sources.Source, digest: bytes) -> str:
    """Returns the split of the document with this digest."""
    if source.split and source.kind != "tfds":
      return source.split
    return self.place(digest)

  def place(self, digest: bytes) -> str:
    """Returns the split that a digest alone decides."""
    # The first half tells duplicates apart and orders samples: use the other.
    position = int.from_bytes(digest[16:24], "big") / 2**64
    if position < self._test:
      return "test"
    if position < self._test + self._validation:
      return "validation"
    return "train"

  def is_in_share(self, digest: bytes, share: float) -> bool:
    """Whether the document is among a random `share` of all documents."""
    # Bits that neither `split` nor a sample looks at.
    return int.from_bytes(digest[24:32], "big") < share * 2**64

  def is_in(self, digest: bytes, share: tuple[float, float]) -> bool:
    """Returns whether a document is in a share, (from, to), of all."""
    # Bytes that nothing else looks at, so that a share is split like the whole.
    place = int.from_bytes(digest[8:16], "big") / 2**64
    return share[0] <= place < share[1]

  def is_in_train_share(self, document: Document, share: float) -> bool:
    """Returns whether `data.train_share` keeps a training document.

    A smaller share lies within a larger one. The text behind the prompt alone
    decides, so data sets that put the same pairs into other templates keep the
    same ones.
    """
    # Hashed anew: independent of what a tokenizer learns from.
    digest = self.digest(f"train_share\n{document.text}")
    return self.is_in_share(digest, share)


def check_share(share: Sequence[float], name: str) -> None:
  """Checks a part of all documents, see `Splitter.is_in`.

  Args:
    share: from, to.
    name: for the message.

  Raises:
    errors.UserError: it is none.
  """
  if len(share) != 2 or not 0 <= share[0] < share[1] <= 1:
    raise errors.UserError(
        f"{name}={tuple(share)} must be two numbers, 0 <= from < to <= 1."
    )


class Excluded:
  """Texts that no document may hold.

  Args:
    paths: of JSON lines with the field `text`, as a source's.

  Raises:
    errors.UserError: the file cannot be read, or a line has no text.
  """

  def __init__(self, paths: tuple[str, ...]):
    source = sources.Source("jsonl", "excluded", paths) if paths else None
    self._passages = passages.Passages(
        templates.render("{text}", record.fields, record.where)
        for record in (sources.records(source) if source else ())
    )

  def is_in(self, text: str) -> bool:
    """Returns whether a document holds one of the texts, however spaced."""
    return next(self._passages.find(text), None) is not None


class Seen:
  """A set of digests on disk, so that memory stays flat; a context manager.

  Args:
    file: where; it is removed at the end.
  """

  def __init__(self, file: pathlib.Path):
    self._file = file

  def __enter__(self) -> "Seen":
    self._db = sqlite3.connect(self._file, isolation_level=None)
    # A scratch file: nothing needs to survive a crash.
    self._db.execute("PRAGMA journal_mode = OFF")
    self._db.execute("PRAGMA synchronous = OFF")
    self._db.execute("PRAGMA cache_size = -32768")  # KiB.
    self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
    self._db.execute("CREATE TABLE seen (d BLOB PRIMARY KEY) WITHOUT ROWID")
    self._db.execute("BEGIN")  # One transaction: no write for each digest.
    return self

  def __exit__(self, *exc_info) -> None:
    self._db.close()
    self._file.unlink(missing_ok=True)

  def add(self, digest: bytes) -> bool:
    """Adds a digest; returns whether it is new.

    Raises:
      errors.UserError: the disk is full.
    """
    try:
      cursor = self._db.execute(
          "INSERT OR IGNORE INTO seen VALUES (?)", (digest[:16],)
      )
    except sqlite3.OperationalError as e:
      raise errors.UserError(
          f"Cannot write {str(self._file)!r}: {e}. Free some space, or choose a"
          " folder on another disk."
      ) from e
    return cursor.rowcount == 1


class Sample:
  """Keeps a uniform sample of documents of a bounded size.

  It keeps the documents with the smallest digests, so the sample depends
  neither on their order nor on chance; a duplicate counts once.

  Args:
    max_size: bound on the sum of `size`.
    size: a document's size.
  """

  def __init__(self, max_size: int, size: Callable[[str], int] = len):
    self._max_size = max_size
    self._size_of = size
    self._size = 0
    self._heap = []  # (minus the digest as a number, text), largest digest up.
    self._kept = set()

  def add(self, digest: bytes, text: str) -> None:
    """Offers a document."""
    key = -int.from_bytes(digest[:16], "big")
    full = self._size >= self._max_size
    if key in self._kept or (full and key < self._heap[0][0]):
      return
    heapq.heappush(self._heap, (key, text))
    self._kept.add(key)
    self._size += self._size_of(text)
    while self._size - self._size_of(self._heap[0][1]) >= self._max_size:
      key, text = heapq.heappop(self._heap)
      self._kept.remove(key)
      self._size -= self._size_of(text)

  def merge(self, other: "Sample") -> None:
    """Offers all that another sample, of other documents perhaps, has kept."""
    for key, text in other._heap:
      self.add((-key).to_bytes(16, "big"), text)

  def texts(self) -> list[str]:
    """Returns the sample, in the order of the digests."""
    return [text for _, text in sorted(self._heap, reverse=True)]
