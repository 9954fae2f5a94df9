"""Sources -> a whole data set in a folder: the pass that writes it."""

import collections
import hashlib
import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ctrl_jax import errors
from ctrl_jax import text as text_lib
from ctrl_jax.data import documents, encoding, records, sequences, token_rows
from ctrl_jax.data import manifest as manifest_lib
from ctrl_jax.data import sources as sources_lib
from ctrl_jax.data.inventory import Inventory
from ctrl_jax.data.selection import Selection
from ctrl_jax.data.settings import Settings
from ctrl_jax.data.texts import Texts

SPLITS = sources_lib.SPLITS

MEND_LONG_PROMPTS = (
    "Raise data.sequence_length, the tokens of code, prompt and text together,"
    " or shorten the prompts."
)

# What reports name even where it is 0.
NONE_DROPPED = {"duplicate": 0, "empty": 0}

_NO_ATTRIBUTE = np.zeros(0, np.int32)

# Called with (source, documents read so far) as the work goes on.
Progress = Callable[[sources_lib.Source, int], None]


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
  found = manifest(
      folder, settings, tokenizer, infos, content, builder.attributes(), config
  )
  found.save()
  return found


def manifest(
    folder: pathlib.Path,
    settings: Settings,
    tokenizer: text_lib.Tokenizer,
    infos: Sequence[manifest_lib.SourceInfo],
    hashes: Mapping[str, str],
    attributes: Sequence[str],
    config: dict,
    files: Mapping[str, manifest_lib.FileInfo] | None = None,
) -> manifest_lib.Manifest:
  """Returns the manifest of a data set that is written but for it.

  Args:
    folder: where it lies.
    settings: what it is made of.
    tokenizer: made its tokens.
    infos: of its sources.
    hashes: split -> hash of its records, see `records.content_hash`.
    attributes: of its training documents.
    config: stored in the manifest.
    files: those that do not lie in the folder yet.
  """
  content = " ".join(hashes[split] for split in SPLITS) + tokenizer.hash
  files = {**(files or {}), **manifest_lib.file_infos(folder)}
  return manifest_lib.Manifest(
      folder=folder,
      sequence_length=settings.sequence_length,
      vocab_size=tokenizer.vocab_size,
      tokenizer_hash=tokenizer.hash,
      codes=settings.codes,
      prior=prior(infos),
      sources=tuple(infos),
      hash=hashlib.sha256(content.encode()).hexdigest(),
      seed=settings.seed,
      attribute_length=settings.attribute_length,
      attributes=tuple(attributes),
      config=config,
      files=dict(sorted(files.items())),
  )


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
    self._selection = Selection(settings)
    self._width = settings.sequence_length + 1
    self._writers = {
        split: records.Writer(
            folder, split, self._width, settings.attribute_length
        )
        for split in SPLITS
    }
    self._inventory = Inventory()
    self._texts = Texts(
        folder / "documents", [s.code for s in settings.sources]
    )

  def add(self, index: int, source: sources_lib.Source):
    """Writes a source; returns its `SourceInfo`."""
    dropped = collections.Counter(NONE_DROPPED)
    counts = {split: sequences.Counts() for split in SPLITS}
    starts = {split: w.size for split, w in self._writers.items()}
    code_ids = code_ids_of(self._tokenizer, source)
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
        check_attribute(self._settings, self._tokenizer, source, attribute)
        if not source.is_stream:
          rows = sequences.cut(tokens, weights, code_ids, self._width)
          if self._settings.truncate and source.target:
            rows = sequences.truncate(rows, counts[split], len(code_ids))
          write(split, rows, attribute)
        else:
          write(split, streams[split].add(tokens))
    for split, stream in streams.items():
      write(split, stream.close())
    ranges = {s: (starts[s], w.size) for s, w in self._writers.items()}
    return source_info(source, code_ids, counts, dropped, ranges)

  def _new_documents(self, source, counts, dropped) -> Iterator[tuple]:
    """Yields (split, document) without empty ones and duplicates."""
    for number, document in enumerate(documents.read(source), 1):
      self._progress(source, number)
      digest = self._selection.digest(document)
      if reason := self._selection.before(document, digest):
        dropped[reason] += 1
        continue
      if not self._seen.add(self._selection.identity(document)):
        dropped["duplicate"] += 1
        continue
      split, reason = self._selection.after(source, document, digest)
      if split == "train":
        # What the share leaves out is an attribute of the task all the same.
        self._inventory.add(document.attribute)
      if reason:
        dropped[reason] += 1
        continue
      counts[split].documents += 1
      # The model learns a pair's target alone: the whole is no text it knows.
      if not document.is_pair:
        self._texts.add(split, source.code, document.whole, digest)
      yield split, document

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

  def finish(self) -> dict[str, str]:
    """Closes all files; returns split -> hash of its records."""
    self._texts.finish()
    finished = {split: self._writers[split].finish() for split in SPLITS}
    records.write_info(
        self._folder, self._width, [info for info, _ in finished.values()],
        self._settings.attribute_length,
    )
    return {split: content for split, (_, content) in finished.items()}


def source_info(
    source: sources_lib.Source,
    code_ids: Sequence[int],
    counts: Mapping[str, sequences.Counts],
    dropped: Mapping[str, int],
    ranges: Mapping[str, tuple[int, int]],
) -> manifest_lib.SourceInfo:
  """Returns what the manifest says of a source.

  Args:
    source: the source.
    code_ids: in front of its rows.
    counts: of each split.
    dropped: reason -> documents.
    ranges: split -> (start, end), its records' place in the split.

  Raises:
    errors.UserError: see `check_not_empty`.
  """
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
      splits=dict(counts),
      ranges=dict(ranges),
  )


def code_ids_of(
    tokenizer: text_lib.Tokenizer, source: sources_lib.Source
) -> list[int]:
  """Returns the ids in front of every row of a source."""
  if source.code:
    return tokenizer.code_ids(source.code)
  return list(tokenizer.begin_ids)


def check_attribute(
    settings: Settings,
    tokenizer: text_lib.Tokenizer,
    source: sources_lib.Source,
    attribute: np.ndarray,
) -> None:
  """Refuses an attribute that records have no room for.

  Args:
    settings: say how much room there is.
    tokenizer: made the attribute's tokens.
    source: the document's.
    attribute: int32 [a].

  Raises:
    errors.UserError: it is too long.
  """
  if attribute.size > settings.attribute_length:
    raise errors.UserError(
        f"Source {source.name!r} has an attribute of {attribute.size} tokens,"
        f" {tokenizer.decode(attribute.tolist())!r}: raise"
        f" data.attribute_length={settings.attribute_length}."
    )


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
  """Returns each code's share of the tokens that a model is trained on.

  Raises:
    errors.UserError: there are none.
  """
  tokens = dict.fromkeys((info.code for info in infos), 0)
  for info in infos:
    tokens[info.code] += info.weight * info.splits["train"].tokens
  total = sum(tokens.values())
  if not total:
    raise errors.UserError(
        "No source has training text and a weight above 0: add one."
    )
  return {code: count / total for code, count in tokens.items()}
