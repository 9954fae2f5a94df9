"""Reads the records that were written, on many machines: hashes of all."""

import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Iterator

import apache_beam as beam
from array_record.python import array_record_module

from ctrl_jax.data import buckets, manifest, records
from ctrl_jax.data.beam import summary
from ctrl_jax.data.settings import Settings


def check(
    shards: list[tuple[str, int, str]], settings: Settings, options, folder
) -> tuple[dict[str, str], dict[str, manifest.FileInfo]]:
  """Returns the hashes of splits and files.

  Args:
    shards: (split, index of the first record in it, file) each.
    settings: what the data set is made of.
    options: of the pipeline.
    folder: for what the machines tell, a path of etils.

  Returns:
    split -> `records.content_hash`, and name of a shard -> its size and hash.
  """
  reader = _Reader(settings.sequence_length + 1, settings.attribute_length)
  with beam.Pipeline(options=options) as pipeline:
    found = (
        pipeline
        | beam.Create(shards)
        | beam.Reshuffle()
        | "Check" >> beam.Map(reader.check)
    )
    summary.save(found, folder / "shards")
  totals, files = {}, {}
  for split, file, content, info in summary.saved(folder / "shards"):
    totals[split] = totals.get(split, 0) + int(content, 16)
    files[os.path.basename(file)] = manifest.FileInfo(**info)
  return {s: records.content_hash(t) for s, t in totals.items()}, files


class _Reader:
  """Reads a shard, wherever it lies."""

  def __init__(self, width: int, attribute_length: int):
    self._width = width
    self._attribute_length = attribute_length

  def check(self, shard: tuple[str, int, str]) -> tuple:
    """(split, index, file) -> (split, file, content's hash, file's info)."""
    split, start, file = shard
    features = records.features(self._width, self._attribute_length)
    with tempfile.TemporaryDirectory() as folder:
      local = pathlib.Path(file)
      if buckets.is_remote(file):
        local = pathlib.Path(folder, "shard")
        buckets.download(file, local)
      total = sum(
          records.content_digest(i, features.deserialize_example_np(record))
          for i, record in enumerate(_records(local), start)
      )
      info = dataclasses.asdict(manifest.file_info(local))
    return split, file, records.content_hash(total), info


def _records(file: pathlib.Path) -> Iterator[bytes]:
  reader = array_record_module.ArrayRecordReader(str(file))
  try:
    for _ in range(reader.num_records()):
      yield reader.read()
  finally:
    reader.close()
