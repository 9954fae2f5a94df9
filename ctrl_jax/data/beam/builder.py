"""tensorflow-datasets' Beam builder of a data set's records."""

import os
import pathlib
import tempfile

import apache_beam as beam
import tensorflow_datasets as tfds
from array_record.python import array_record_module

from ctrl_jax import text as text_lib
from ctrl_jax.data import buckets, records, sources
from ctrl_jax.data.beam import documents, rows, summary, tokenizers
from ctrl_jax.data.settings import Settings


class Builder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
  """Builds the records, and a summary beside them.

  Args:
    settings: what the data set is made of, see `documents.expanded`.
    tokenizer: knows all the codes.
    folder: where to, a path of etils.
  """

  name = records.NAME
  VERSION = tfds.core.Version(records.VERSION)

  def __init__(
      self, settings: Settings, tokenizer: text_lib.Tokenizer, folder
  ):
    self._settings = settings
    self._tokenizer = tokenizer
    self._summary = folder / "summary"
    self._tokenizer_folder = folder / "tokenizer"
    super().__init__(data_dir=folder, file_format="array_record")

  def _info(self) -> tfds.core.DatasetInfo:
    return _Info(
        builder=self,
        features=records.features(
            self._settings.sequence_length + 1, self._settings.attribute_length
        ),
        disable_shuffling=True,  # Keys give the order.
    )

  def _example_writer(self) -> "_Writer":
    return _Writer(self.info.file_format)

  def _split_generators(self, dl_manager, pipeline) -> dict:
    settings = self._settings
    found = pipeline | documents.read(settings)
    dropped, chosen = documents.select(found.documents, settings)
    tokenizers.save(self._tokenizer, self._tokenizer_folder)
    made = rows.cut(
        chosen.documents, settings, self._tokenizer,
        str(self._tokenizer_folder),
    )
    all_dropped = [
        found[documents.DROPPED], dropped, chosen[documents.DROPPED]
    ]
    summary.write(
        all_dropped | "All dropped" >> beam.Flatten(),
        chosen.documents,
        chosen[documents.ATTRIBUTE],
        made[rows.COUNTS],
        settings,
        self._summary,
    )
    return {
        split: made.rows | f"To {split}" >> beam.FlatMap(_of_split, split)
        for split in splits(settings)
    }

  def _generate_examples(self):
    raise NotImplementedError  # All splits are made at once, above.


def splits(settings: Settings) -> list[str]:
  """Returns the splits that get documents, if there are any for them."""
  fixed = {s.split for s in settings.sources if s.kind != "tfds" and s.split}
  if any(s.kind == "tfds" or not s.split for s in settings.sources):
    fixed |= {"train"}
    fixed |= {"validation"} if settings.validation_fraction else set()
    fixed |= {"test"} if settings.test_fraction else set()
  return [split for split in sources.SPLITS if split in fixed]


def _of_split(row: tuple, split: str) -> list:
  return [row[1]] if row[0] == split else []


class _Info(tfds.core.DatasetInfo):
  """What stands beside the records, without a look elsewhere."""

  def initialize_from_bucket(self) -> None:
    """Asks nobody: what is made here is in no public bucket."""


class _Writer(tfds.core.writer.ExampleWriter):
  """Writes shards anywhere: array_record itself knows no buckets."""

  def write(self, path, examples) -> None:
    with tempfile.TemporaryDirectory() as folder:
      shard = pathlib.Path(folder, "shard")
      writer = array_record_module.ArrayRecordWriter(
          str(shard), records.OPTIONS
      )
      for _, example in examples:
        writer.write(example)
      writer.close()
      buckets.upload(shard, os.fspath(path))
