"""Sources -> a whole data set in a folder: the pass that writes it."""

import collections
import dataclasses
import gzip
import hashlib
import itertools
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ctrl_jax import errors
from ctrl_jax import text as text_lib
from ctrl_jax.data import documents, encoding, records, sequences, token_rows
from ctrl_jax.data import manifest as manifest_lib
from ctrl_jax.data import sources as sources_lib
from ctrl_jax.data.inventory import Inventory

SPLITS = sources_lib.SPLITS
# Training text kept for baselines, a code: documents and characters at most.
_KEPT_DOCUMENTS = 2000
_KEPT_CHARS = 4_000_000

MEND_LONG_PROMPTS = (
    "Raise data.sequence_length, the tokens of code, prompt and text together,"
    " or shorten the prompts."
)

_NO_ATTRIBUTE = np.zeros(0, np.int32)

# Called with (source, documents read so far) as the work goes on.
Progress = Callable[[sources_lib.Source, int], None]


@dataclasses.dataclass(frozen=True)
class Settings:
  """What decides the content of a data set, besides its tokenizer."""

  sources: tuple[sources_lib.Source, ...]
  sequence_length: int
  max_unknown: int
  validation_fraction: float
  test_fraction: float
  seed: int
  attribute_length: int = 0
  share: tuple[float, float] = (0.0, 1.0)
  train_share: float = 1.0
  exclude: tuple[str, ...] = ()
  truncate: bool = False

  def __post_init__(self):
    _ = self.splitter  # It checks the fractions.
    if self.max_unknown < 0:
      raise errors.UserError("data.max_unknown must be 0 or more.")
    documents.check_share(self.share, "data.share")
    if not 0 < self.train_share <= 1:
      raise errors.UserError(
          f"data.train_share={self.train_share} must be above 0 and at most 1."
      )
    if not 0 <= self.attribute_length < 2**16:
      raise errors.UserError("data.attribute_length must be 0 or more.")
    if not self.sources:
      raise errors.UserError("data.sources is empty: there is no text.")
    for source in self.sources:
      if len(source.code.split()) >= self.sequence_length:
        raise errors.UserError(
            f"data.sequence_length={self.sequence_length} leaves no room for"
            f" text after the code {source.code!r}."
        )
      if source.attribute and not self.attribute_length:
        raise errors.UserError(
            f"Source {source.name!r} has an attribute: set"
            " data.attribute_length, its tokens at most."
        )
      if source.kind == "tfrecords" and self.train_share != 1:
        raise errors.UserError(
            f"data.train_share={self.train_share} is of documents, and source"
            f" {source.name!r} holds sequences: leave it at 1."
        )

  @property
  def codes(self) -> tuple[str, ...]:
    """The control codes, each once, in order; "" is none."""
    return tuple(dict.fromkeys(s.code for s in self.sources if s.code))

  def trains_on(self, document: documents.Document) -> bool:
    """Returns whether a document of the split "train" is in `train_share`."""
    return self.train_share == 1 or self.splitter.is_in_train_share(
        document, self.train_share
    )

  @property
  def splitter(self) -> documents.Splitter:
    """Says which document goes where."""
    return documents.Splitter(
        self.seed, self.validation_fraction, self.test_fraction
    )


def build(
    folder,
    settings: Settings,
    tokenizer: text_lib.Tokenizer,
    workers: int,
    config: dict,
    progress: Progress,
) -> manifest_lib.Manifest:
  """Writes a data set into an empty folder and returns its manifest.

  Args:
    folder: where to.
    settings: what the data set is made of.
    tokenizer: knows all the codes.
    workers: processes that tokenize; the result does not depend on it.
    config: stored in the manifest.
    progress: called after each document.

  Raises:
    errors.UserError: bad input, or a source that yields nothing.
  """
  folder = pathlib.Path(folder)
  with (
      documents.Seen(folder / "seen.db") as seen,
      encoding.Encoder(tokenizer, workers) as encoder,
  ):
    builder = _Builder(folder, settings, tokenizer, seen, encoder, progress)
    infos = [builder.add(i, s) for i, s in enumerate(settings.sources)]
    content = builder.finish()
  tokenizer.save(folder / "tokenizer")
  manifest = manifest_lib.Manifest(
      folder=folder,
      sequence_length=settings.sequence_length,
      vocab_size=tokenizer.vocab_size,
      tokenizer_hash=tokenizer.hash,
      codes=settings.codes,
      prior=prior(infos),
      sources=tuple(infos),
      hash=hashlib.sha256((content + tokenizer.hash).encode()).hexdigest(),
      seed=settings.seed,
      attribute_length=settings.attribute_length,
      attributes=builder.attributes(),
      config=config,
      files=manifest_lib.file_infos(folder),
  )
  manifest.save()
  return manifest


class _Builder:
  """The second pass: one source after another, three splits at a time."""

  def __init__(self, folder, settings, tokenizer, seen, encoder, progress):
    self._folder = folder
    self._settings = settings
    self._tokenizer = tokenizer
    self._seen = seen
    self._encoder = encoder
    self._progress = progress
    self._splitter = settings.splitter
    self._width = settings.sequence_length + 1
    self._writers = {
        split: records.Writer(
            folder, split, self._width, settings.attribute_length
        )
        for split in SPLITS
    }
    self._inventory = Inventory()
    self._excluded = documents.Excluded(settings.exclude)
    self._texts = Texts(folder / "documents")

  def add(self, index: int, source: sources_lib.Source):
    """Writes a source; returns its `SourceInfo`."""
    dropped = collections.Counter(duplicate=0, empty=0)
    counts = {split: sequences.Counts() for split in SPLITS}
    starts = {split: w.size for split, w in self._writers.items()}
    code_ids = list(self._tokenizer.begin_ids)
    if source.code:
      code_ids = self._tokenizer.code_ids(source.code)
    streams = {s: sequences.Stream(code_ids, self._width) for s in SPLITS}

    def write(
        split: str, rows: sequences.Rows | None, attribute=_NO_ATTRIBUTE
    ) -> None:
      if rows is None:
        return
      kept = sequences.select(
          rows,
          counts[split],
          len(code_ids),
          self._tokenizer.unknown_id,
          self._settings.max_unknown,
      )
      self._writers[split].write(kept, index, attribute)

    if source.kind == "tfrecords":
      for split, rows in self._sequences(source, code_ids, counts, dropped):
        write(split, rows)
    else:
      new = self._new_documents(source, counts, dropped)
      for split, tokens, weights, attribute in self._encoder.map(new):
        self._check_attribute(source, attribute)
        if source.target or source.attribute:
          rows = sequences.cut(tokens, weights, code_ids, self._width)
          if self._settings.truncate and source.target:
            rows = sequences.truncate(rows, counts[split], len(code_ids))
          write(split, rows, attribute)
        else:
          write(split, streams[split].add(tokens))
    for split, stream in streams.items():
      write(split, stream.close())
    ranges = {s: (starts[s], w.size) for s, w in self._writers.items()}
    read = sum(c.documents for c in counts.values()) + sum(dropped.values())
    check_not_empty(source, counts, read)
    return manifest_lib.SourceInfo(
        name=source.name,
        kind=source.kind,
        code=source.code,
        code_ids=tuple(code_ids),
        weight=source.weight,
        documents_read=read,
        dropped_documents=dict(dropped),
        splits=counts,
        ranges=ranges,
    )

  def _new_documents(self, source, counts, dropped) -> Iterator[tuple]:
    """Yields (split, document) without empty ones and duplicates."""
    for number, document in enumerate(documents.read(source), 1):
      self._progress(source, number)
      if document.is_empty:
        dropped["empty"] += 1
        continue
      digest = self._splitter.digest(document.whole)
      if not self._splitter.is_in(digest, self._settings.share):
        dropped["not_in_share"] += 1
        continue
      if not self._seen.add(self._splitter.digest(document.identity)):
        dropped["duplicate"] += 1
        continue
      if self._excluded.is_in(document.whole):
        dropped["excluded"] += 1
        continue
      split = self._splitter.split(source, digest)
      if split == "train":
        # What the share leaves out is an attribute of the task all the same.
        self._inventory.add(document.attribute)
        if not self._settings.trains_on(document):
          dropped["not_in_train_share"] += 1
          continue
      counts[split].documents += 1
      # The model learns a pair's target alone: the whole is no text it knows.
      if not document.is_pair:
        self._texts.add(split, source.code, document.whole, digest)
      yield split, document

  def _check_attribute(self, source, attribute):
    if attribute.size > self._settings.attribute_length:
      raise errors.UserError(
          f"Source {source.name!r} has an attribute of {attribute.size} tokens,"
          f" {self._tokenizer.decode(attribute.tolist())!r}: raise"
          f" data.attribute_length={self._settings.attribute_length}."
      )

  def _sequences(self, source, code_ids, counts, dropped) -> Iterator[tuple]:
    """Yields (split, rows) of a source that is cut into sequences already."""
    limit = source.max_documents or None
    records = itertools.islice(sources_lib.records(source), limit)
    for number, record in enumerate(records, 1):
      self._progress(source, number)
      tokens = record.fields["tokens"]
      rows = token_rows.cut(
          tokens, record.where, code=source.code, code_ids=code_ids,
          vocab_size=self._tokenizer.vocab_size, width=self._width,
      )
      # As the text of a document would be.
      digest = self._splitter.digest(" ".join(map(str, tokens)))
      if not self._seen.add(digest):
        dropped["duplicate"] += 1
        continue
      split = self._splitter.split(source, digest)
      counts[split].documents += 1
      yield split, rows

  def attributes(self) -> tuple[str, ...]:
    """The attributes of the training documents, if they are an inventory."""
    return self._inventory.attributes()

  def finish(self) -> str:
    """Closes all files; returns the hash of the records' content."""
    self._texts.finish()
    finished = [self._writers[split].finish() for split in SPLITS]
    records.write_info(
        self._folder, self._width, [i for i, _ in finished],
        self._settings.attribute_length,
    )
    return " ".join(digest for _, digest in finished)


class Texts:
  """The documents' text: all that is held out, a sample of the rest.

  Args:
    folder: where to; it is made.
  """

  def __init__(self, folder: pathlib.Path):
    folder.mkdir()
    # Made here: no time stamp or file name, so the same text is the same file.
    self._files = {
        split: gzip.GzipFile(folder / f"{split}.jsonl.gz", "wb", 6, mtime=0)
        for split in SPLITS
    }
    self._samples = {}

  def add(self, split: str, code: str, text: str, digest: bytes) -> None:
    """Takes a document."""
    if split != "train":
      self._write(split, code, text)
      return
    if code not in self._samples:
      smallest = _KEPT_CHARS // _KEPT_DOCUMENTS
      self._samples[code] = documents.Sample(
          _KEPT_CHARS, lambda text: max(len(text), smallest)
      )
    self._samples[code].add(digest, text)

  def _write(self, split: str, code: str, text: str) -> None:
    line = json.dumps({"code": code, "text": text}, ensure_ascii=False) + "\n"
    self._files[split].write(line.encode())

  def finish(self) -> None:
    """Writes the samples and closes the files."""
    for code, kept in self._samples.items():
      for text in kept.texts():
        self._write("train", code, text)
    for file in self._files.values():
      file.close()


def check_not_empty(source, counts: dict, read: int) -> None:
  """Refuses a source that yields nothing to train on.

  Args:
    source: the source.
    counts: split -> `sequences.Counts`.
    read: documents read.

  Raises:
    errors.UserError: there are no sequences in its split, or in "train".
  """
  fixed = source.split if source.kind != "tfds" else ""
  split = fixed or "train"
  if not counts[split].sequences:
    dropped = ", ".join(
        f"{n} sequences dropped for {reason}"
        for reason, n in counts[split].dropped_sequences.items()
    )
    mend = "Check its path, template and tokenizer, or leave it out."
    if source.target and "no_target" in counts[split].dropped_sequences:
      mend = MEND_LONG_PROMPTS
    raise errors.UserError(
        f"Source {source.name!r} yields no sequences for the split {split!r}:"
        f" {read} documents read, {counts[split].documents} of them new and not"
        f" empty in that split{dropped and ', ' + dropped}. {mend}"
    )


def prior(infos: Sequence[manifest_lib.SourceInfo]) -> dict[str, float]:
  """Returns each code's share of the training tokens.

  Raises:
    errors.UserError: there are none.
  """
  tokens = dict.fromkeys((info.code for info in infos), 0)
  for info in infos:
    tokens[info.code] += info.splits["train"].tokens
  total = sum(tokens.values())
  if not total:
    raise errors.UserError("No source has training text.")
  return {code: count / total for code, count in tokens.items()}
