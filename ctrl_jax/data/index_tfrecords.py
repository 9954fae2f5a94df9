"""Makes a data set of TFRecords where they lie: reads them once, copies none.

All that `prepare` checks is checked here: the code in front, the length, the
range of the ids, unknown tokens. Records go to splits by a hash, as documents
do; duplicates are kept.
"""

import gzip
import hashlib
import logging
import os
import pathlib
import shutil
import zlib

from ctrl_jax import config as config_lib
from ctrl_jax import errors, text
from ctrl_jax.data import (
    buckets,
    build,
    existing,
    files,
    indexed,
    sequences,
    token_rows,
)
from ctrl_jax.data import manifest as manifest_lib
from ctrl_jax.data import sources as sources_lib
from ctrl_jax.data.settings import Settings
from ctrl_jax.data.texts import Texts
from ctrl_jax.interop import tfrecords

_LOG = logging.getLogger("ctrl_jax.train")


def make(config) -> manifest_lib.Manifest:
  """Indexes `config.data.tfrecords` in `config.data.folder`, unless it is done.

  Args:
    config: a configuration as `ctrl_jax.config.default` makes.

  Returns:
    The manifest.

  Raises:
    errors.UserError: bad input, no tokenizer, or something else in the folder;
      nothing is left behind.
  """
  folder = files.expand(config.data.folder)
  _check_is_here(folder)
  identity = existing.identity(config)
  found = existing.find(folder, identity, "delete that folder")
  if found:
    return found
  existing.check(folder)
  if not config.tokenizer.path:
    raise errors.UserError(
        "data.tfrecords hold token ids: set tokenizer.path to the tokenizer"
        " that made them."
    )
  settings = Settings(
      sources=tuple(map(source, config.data.tfrecords)),
      sequence_length=config.data.sequence_length,
      max_unknown=config.data.max_unknown,
      validation_fraction=config.data.validation_fraction,
      test_fraction=config.data.test_fraction,
      seed=config.data.seed,
      train_share=config.data.train_share,
  )
  tokenizer = text.load_tokenizer(files.expand(config.tokenizer.path))
  tokenizer = tokenizer.with_codes(settings.codes)
  with existing.replacing(folder) as partial:
    _Index(partial, settings, tokenizer).make(identity)
  return manifest_lib.Manifest.load(folder)


def source(item: str) -> sources_lib.Source:
  """Returns the source that an item of `data.tfrecords` means.

  >>> source("Legal=a/*.tfrecords").path
  ('a/*.tfrecords',)

  Raises:
    errors.UserError: it is not "CODE=PATH".
  """
  code, equals, path = str(item).partition("=")
  if not equals or not path:
    raise errors.UserError(
        f"data.tfrecords: {item!r} must be CODE=PATH, or =PATH without a code."
    )
  return sources_lib.Source.from_config(
      config_lib.source("tfrecords", code, path=path)
  )


def _check_is_here(path: str) -> None:
  if buckets.is_remote(path):
    raise errors.UserError(
        f"{path!r}: data.tfrecords are read at random places, and their index"
        " names files of this machine: copy them here. (`prepare` reads them"
        " from a bucket: config.source(\"tfrecords\", ...).)"
    )


class _Index:
  """One pass over all records."""

  def __init__(self, folder: pathlib.Path, settings: Settings, tokenizer):
    self._folder = folder
    self._settings = settings
    self._tokenizer = tokenizer
    self._splitter = settings.splitter
    self._width = settings.sequence_length + 1
    self._files = []
    self._places = {split: [] for split in sources_lib.SPLITS}
    self._digest = hashlib.sha256()

  def make(self, identity: dict) -> None:
    """Writes the index, the tokenizer and the manifest."""
    sources = self._settings.sources
    infos = [self._add(i, source) for i, source in enumerate(sources)]
    indexed.write(
        self._folder, self._files, [info.code_ids for info in infos],
        self._width, self._places,
    )
    self._tokenizer.save(self._folder / "tokenizer")
    Texts(self._folder / "documents", ()).finish()  # Ids are no text.
    self._digest.update(self._tokenizer.hash.encode())
    manifest_lib.Manifest(
        folder=self._folder,
        sequence_length=self._settings.sequence_length,
        vocab_size=self._tokenizer.vocab_size,
        tokenizer_hash=self._tokenizer.hash,
        codes=self._settings.codes,
        prior=build.prior(infos),
        sources=tuple(infos),
        hash=self._digest.hexdigest(),
        seed=self._settings.seed,
        config=identity,
        files=manifest_lib.file_infos(self._folder),
    ).save()

  def _add(self, index: int, source) -> manifest_lib.SourceInfo:
    code_ids = self._tokenizer.code_ids(source.code) if source.code else []
    counts = {split: sequences.Counts() for split in sources_lib.SPLITS}
    starts = {split: len(rows) for split, rows in self._places.items()}
    for file in files.find(source.path):
      _check_is_here(file)
      _LOG.info("Indexing %s", file)
      number = len(self._files)
      self._files.append(self._unpacked(file, number))
      for at, checksum, tokens in tfrecords.places(file):
        rows = token_rows.cut(
            tokens, f"{file}, byte {at}", code=source.code, code_ids=code_ids,
            vocab_size=self._tokenizer.vocab_size, width=self._width,
        )
        split = self._splitter.split(
            source, self._splitter.digest(" ".join(map(str, tokens)))
        )
        counts[split].documents += 1
        kept = sequences.select(
            rows, counts[split], len(code_ids), self._tokenizer.unknown_id,
            self._settings.max_unknown,
        )
        if len(kept.length):
          self._places[split].append((number, at, index, checksum))
          self._digest.update(split.encode() + tokens.tobytes())
    ranges = {s: (starts[s], len(rows)) for s, rows in self._places.items()}
    return build.source_info(source, code_ids, counts, {}, ranges)

  def _unpacked(self, file: str, number: int) -> str:
    """Returns a file that can be read anywhere: itself, or one unpacked here.
    """
    if not tfrecords.is_gzipped(file):
      return os.path.abspath(file)
    name = f"unpacked-{number}.tfrecords"
    with gzip.open(file, "rb") as packed, (self._folder / name).open("wb") as f:
      try:
        shutil.copyfileobj(packed, f, 1 << 20)
      except (EOFError, zlib.error, gzip.BadGzipFile) as e:
        raise errors.UserError(
            f"{file}: damaged gzip file ({e}). Make it again."
        ) from e
    return name
