"""Where keyword triples come from: sources of text, or files of ready rows."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence

from ctrl_jax import errors
from ctrl_jax.data import documents, files, passages, sources
from ctrl_jax.data import keywords as keywords_lib
from ctrl_jax.data import sentences as sentences_lib


@dataclasses.dataclass(frozen=True)
class Candidate:
  """A sentence: where it belongs, or why it is dropped.

  Attributes:
    split: "train", "validation" or "test".
    triple: None when the sentence is dropped.
    reason: why, "" when it is not.
    digest: hash of the sentence; orders the candidates.
  """

  split: str
  triple: keywords_lib.Triple | None
  reason: str
  digest: bytes


def from_sources(
    sources_: Sequence[sources.Source],
    inventory: keywords_lib.Inventory,
    lengths: keywords_lib.Lengths,
    splitter: documents.Splitter,
) -> Iterator[Candidate]:
  """Yields a candidate for each sentence of all documents.

  A document is in the split where `prepare` with the same seed and fractions
  puts it, so a model trained on that data set has not read the test triples.

  Raises:
    errors.UserError: a source that holds no text, or cannot be read.
  """
  for source in sources_:
    if source.kind == "tfrecords":
      raise errors.UserError(
          f"Source {source.name!r} holds token ids, no sentences: leave it out."
      )
    for document in documents.read(source):
      digest = splitter.digest(document.whole)
      split = splitter.split(source, digest)
      for sentence in sentences_lib.split(document.whole):
        own = splitter.digest(sentence)
        yield Candidate(
            split,
            *keywords_lib.from_sentence(
                sentence, inventory, lengths, own, _short(digest)
            ),
            own,
        )


def from_triples(
    paths: Sequence[str],
    inventory: keywords_lib.Inventory | None,
    splitter: documents.Splitter,
) -> Iterator[Candidate]:
  """Yields a candidate for each row of ready triples, see `keywords.from_row`.

  Each sentence counts as a document of its own: rows do not say which they
  come from, so sentences of one document may be in different splits.

  Raises:
    errors.UserError: a file that cannot be read, or a line that is not JSON
      with the three fields as strings.
  """
  for file in files.find(paths):
    for number, line in enumerate(files.lines(file), 1):
      row = _row(line, f"{file}:{number}")
      digest = splitter.digest(row["text"])
      yield Candidate(
          splitter.place(digest),
          *keywords_lib.from_row(row, inventory, _short(digest)),
          digest,
      )


def within(
    candidates: Iterable[Candidate],
    sources_: Sequence[sources.Source],
    splitter: documents.Splitter,
    share: tuple[float, float],
) -> Iterator[Candidate]:
  """Drops what is to be trained on and is not of a base's training documents.

  So no other model, which is to judge samples, has read these sentences; nor
  are they among the base's own held-out text. A document with a test sentence
  is left out whole: no document is in two splits.

  Args:
    candidates: those of the split "test" stay as they are.
    sources_: of the base.
    splitter: of the base.
    share: the base's `data.share`.
  """
  candidates = list(candidates)
  texts = {
      c.digest: passages.spaced(c.triple.prefix + c.triple.text)
      for c in candidates if c.triple
  }
  test = {texts[c.digest] for c in candidates if c.triple and c.split == "test"}
  index = passages.Passages(texts.values())
  own = set()
  for source in sources_:
    for document in documents.read(source):
      digest = splitter.digest(document.whole)
      if splitter.is_in(digest, share) and (
          splitter.split(source, digest) == "train"
      ):
        found = set(index.find(document.whole))
        if found.isdisjoint(test):
          own |= found
  for c in candidates:
    if c.triple and c.split != "test" and texts[c.digest] not in own:
      c = dataclasses.replace(c, triple=None, reason="of no training document")
    yield c


def _short(digest: bytes) -> str:
  return digest[:8].hex()


def _row(line: str, where: str) -> dict:
  try:
    row = json.loads(line)
    # Strings, and of whole characters: JSON can hold half surrogate pairs.
    "".join(row[f] for f in ("keyword", "prefix", "text")).encode()
    return row
  except (ValueError, LookupError, TypeError, RecursionError):
    pass
  raise errors.UserError(
      f"{where}: not a JSON object with the strings `keyword`, `prefix` and"
      f" `text`: {line[:40]!r}."
  )
