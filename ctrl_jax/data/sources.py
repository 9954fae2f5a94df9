"""Sources of text: each kind becomes a stream of records (field -> value)."""

import csv
import dataclasses
import functools
import inspect
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping

from ctrl_jax import errors
from ctrl_jax.data import docs, files, story_kinds, templates
from ctrl_jax.data.readers import (
    amazon_reviews,
    cnn_dailymail,
    eli5,
    gutenberg,
    mrqa,
    new_york_times,
    openwebtext,
    parallel,
    reddit,
    wikiextractor,
)

SPLITS = ("train", "validation", "test")
# A "text" without blank lines is cut after this many times `piece_chars`.
_LONGEST_PIECE = 8


@dataclasses.dataclass(frozen=True)
class Source:
  """A source of text; `config.source` says what the fields mean."""

  kind: str
  code: str
  path: tuple[str, ...]
  template: str = "{text}"
  target: str = ""
  weight: float = 1.0
  max_documents: int = 0
  piece_chars: int = 2000
  name: str = ""
  split: str = ""
  attribute: str = ""
  options: Mapping = dataclasses.field(default_factory=dict)

  @classmethod
  def from_config(cls, config: Mapping) -> "Source":
    """Returns a checked source.

    Raises:
      errors.UserError: an unknown field, kind or split, or a bad value.
    """
    if not isinstance(config, Mapping):
      raise errors.UserError(
          f"{config!r} is no source: make each with ctrl_jax.config.source()."
      )
    known = [f.name for f in dataclasses.fields(cls)]
    missing = [f for f in ("kind", "code", "path") if f not in config]
    if missing:
      raise errors.UserError(
          f"A source lacks {', '.join(missing)}: make it with"
          " ctrl_jax.config.source()."
      )
    for field in config:
      if field not in known:
        raise errors.UserError(
            f"A source has no field {field!r}. {errors.nearest(field, known)}"
        )
    source = cls(**config)
    source._check_types()
    path = (source.path,) if isinstance(source.path, str) else source.path
    source = dataclasses.replace(
        source,
        path=tuple(path),
        name=source.name
        or ": ".join(filter(None, (source.code, ", ".join(path)))),
    )
    source._check()
    return source

  @property
  def is_stream(self) -> bool:
    """Whether its documents are one stream of tokens, cut wherever rows end."""
    return not (self.target or self.attribute)

  def _check_types(self) -> None:
    kinds = dict(
        path=(str, list, tuple),
        weight=(int, float),
        max_documents=int,
        piece_chars=int,
        options=Mapping,
    )
    for field, value in vars(self).items():
      items = value if field == "path" and not isinstance(value, str) else ""
      if not isinstance(value, kinds.get(field, str)) or any(
          not isinstance(item, str) for item in items
      ):
        raise errors.UserError(
            f"The source of code {self.code!r}: {field}={value!r} is of the"
            " wrong type; ctrl_jax/config.py says what it must be."
        )

  def _check(self) -> None:
    where = f"Source {self.name!r}:"
    if self.kind not in READERS:
      raise errors.UserError(
          f"{where} unknown kind {self.kind!r}."
          f" {errors.nearest(self.kind, READERS)}"
      )
    self._check_options(where)
    if self.code and not self.code.split():
      raise errors.UserError(
          f"{where} its control code is empty space: write words, or \"\" for"
          " text without a code."
      )
    if self.code != " ".join(self.code.split()):
      raise errors.UserError(
          f"{where} its control code {self.code!r} has space around or twice,"
          f" which codes do not tell apart: write"
          f" {' '.join(self.code.split())!r}."
      )
    if re.search("[\0\ud800-\udfff]", self.code) or (
        "<unk>" in self.code.split()
    ):
      raise errors.UserError(
          f"{where} its control code has a word that no tokenizer can hold"
          " (<unk>, NUL, half a surrogate pair): choose another."
      )
    if not any(self.path):
      raise errors.UserError(f"{where} its path is empty.")
    if self.kind != "tfds" and self.split not in ("", *SPLITS):
      raise errors.UserError(
          f"{where} unknown split {self.split!r}."
          f" {errors.nearest(self.split, SPLITS)}"
      )
    if (
        not 0 <= self.weight < math.inf
        or self.max_documents < 0
        or self.piece_chars < 1
    ):
      raise errors.UserError(
          f"{where} weight and max_documents must be 0 or more, and piece_chars"
          " 1 or more."
      )
    templates.names(self.attribute)  # Raises if it is none.
    if not templates.names(self.template + self.target):
      raise errors.UserError(
          f"{where} its template {self.template!r} names no field: all its"
          " documents would be the same. Write a field as {name}."
      )

  def _check_options(self, where: str) -> None:
    known = {}
    if self.kind in PUBLISHED:
      parameters = inspect.signature(PUBLISHED[self.kind]).parameters
      known = {k: p.annotation for k, p in parameters.items() if k != "path"}
    for name, value in self.options.items():
      if name not in known:
        raise errors.UserError(
            f"{where} kind {self.kind!r} has no option {name!r}."
            f" {errors.nearest(str(name), known) if known else 'It has none.'}"
        )
      if not isinstance(value, known[name]):
        raise errors.UserError(
            f"{where} its option {name}={value!r} is of the wrong type."
        )


@dataclasses.dataclass(frozen=True)
class Record:
  """What a source yields: its fields, and where it stands for a message."""

  fields: Mapping
  where: str


def records(source: Source) -> Iterator[Record]:
  """Yields a source's records one by one, memory independent of its size.

  Raises:
    errors.UserError: a file is missing, empty, damaged, not UTF-8 or not of
      its kind.
  """
  return READERS[source.kind](source)


def _text(source: Source, lines=files.lines) -> Iterator[Record]:
  for file in files.find(source.path):
    start = 1
    for piece in pieces(lines(file), source.piece_chars):
      yield Record({"text": piece}, f"{file}:{start}")
      start += piece.count("\n")


def pieces(lines: Iterator[str], piece_chars: int) -> Iterator[str]:
  """Cuts lines into pieces that joined are the text again.

  A piece ends after a blank line once it has `piece_chars` characters; where
  no blank line comes, at the line end after 8 times as many.
  """
  piece, size = [], 0
  for line in lines:
    piece.append(line)
    size += len(line)
    blank = not line.strip()
    if size >= (piece_chars if blank else _LONGEST_PIECE * piece_chars):
      yield "".join(piece)
      piece, size = [], 0
  if piece:
    yield "".join(piece)


def _jsonl(source: Source) -> Iterator[Record]:
  for file in files.find(source.path):
    for fields, where in files.json_objects(file):
      yield Record(fields, where)


def _csv(source: Source, delimiter: str = ",") -> Iterator[Record]:
  csv.field_size_limit(1 << 30)  # Default: 131,072 characters a field.
  for file in files.find(source.path):
    reader = csv.DictReader(files.lines(file), delimiter=delimiter, strict=True)
    try:
      names = reader.fieldnames or ()
      twice = sorted({name for name in names if names.count(name) > 1})
      if twice:
        raise errors.UserError(
            f"{file}:1: two columns have the name {twice[0]!r}. Rename one."
        )
      for fields in reader:
        where = f"{file}:{reader.line_num}"
        # DictReader's marks of too many values and of too few.
        if None in fields or None in fields.values():
          values = [v for v in fields.values() if v is not None]
          found = sum(len(v) if isinstance(v, list) else 1 for v in values)
          raise errors.UserError(
              f"{where}: this row has {found} columns where the header has"
              f" {len(reader.fieldnames)}. Mend the row, or quote a value that"
              " holds the separator."
          )
        yield Record(fields, where)
    except csv.Error as e:
      # The line that could not be read is not counted yet.
      raise errors.UserError(f"{file}:{reader.line_num + 1}: {e}.") from e


def _tsv(source: Source) -> Iterator[Record]:
  return _csv(source, delimiter="\t")


def _docs(source: Source) -> Iterator[Record]:
  for package in source.path:
    for name, text in docs.docstrings(package):
      yield Record({"name": name, "text": text}, name)


def _tfds(source: Source) -> Iterator[Record]:
  for path in source.path:
    data = _open_tfds(files.expand(path), source.split or "train")
    for i in range(len(data)):
      yield Record(_plain(data[i]), f"{path}[{i}]")


def _open_tfds(path: str, split: str):
  import tensorflow_datasets as tfds  # Half a second, and few need it.

  try:
    if os.path.isdir(path):
      builder = tfds.builder_from_directory(path)
    else:
      builder = tfds.builder(path, file_format="array_record")
    return builder.as_data_source(split=split)
  except (
      AssertionError, LookupError, ValueError, OSError, NotImplementedError,
      tfds.core.DatasetNotFoundError,
  ) as e:
    reason = str(e).strip().splitlines()[0].rstrip(".")
    raise errors.UserError(
        f"Cannot read split {split!r} of the tensorflow-datasets builder"
        f" {path!r}: {reason}. It must be prepared already, with"
        " file_format='array_record'."
    ) from e


def _plain(value):
  """Turns NumPy and bytes into what JSON would give."""
  if isinstance(value, Mapping):
    return {k: _plain(v) for k, v in value.items()}
  if isinstance(value, bytes):
    return value.decode("utf-8", "replace")
  if hasattr(value, "tolist"):
    return _plain(value.tolist())
  if isinstance(value, list):
    return [_plain(v) for v in value]
  return value


def _tfrecords(source: Source) -> Iterator[Record]:
  from ctrl_jax.interop import tfrecords  # Few need it.

  for file in files.find(source.path):
    for number, tokens in enumerate(tfrecords.rows(file), 1):
      yield Record({"tokens": tokens}, f"{file}, record {number}")


def _published(source: Source) -> Iterator[Record]:
  read = PUBLISHED[source.kind]
  for fields, where in read(source.path, **source.options):
    yield Record(fields, where)


# Corpora in the format that each is published in.
PUBLISHED = {
    "amazon_reviews": amazon_reviews.read,
    "cnn_dailymail": cnn_dailymail.read,
    "eli5": eli5.read,
    "mrqa": mrqa.read,
    "new_york_times": new_york_times.read,
    "openwebtext": openwebtext.read,
    "parallel": parallel.read,
    "reddit": reddit.read,
    "wikiextractor": wikiextractor.read,
    **story_kinds.READERS,
}

READERS: Mapping[str, Callable[[Source], Iterator[Record]]] = {
    "text": _text,
    "jsonl": _jsonl,
    "csv": _csv,
    "tsv": _tsv,
    "docs": _docs,
    "tfds": _tfds,
    "tfrecords": _tfrecords,
    "gutenberg": functools.partial(_text, lines=gutenberg.lines),
    **dict.fromkeys(PUBLISHED, _published),
}
