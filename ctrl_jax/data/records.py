"""Records on disk: a tensorflow-datasets dataset in array_record.

`tfds.builder_from_directory(folder).as_data_source("train")` reads it. No
TensorFlow is needed to write or to read.
"""

import bisect
import contextlib
import hashlib
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow_datasets as tfds
from array_record.python import array_record_module

from ctrl_jax import errors
from ctrl_jax.data import indexed, sequences

NAME = "ctrl_jax"
VERSION = "1.0.0"
_SHARD_RECORDS = 1 << 17
# One record a chunk: random access reads no more than it wants.
OPTIONS = "group_size:1"


def features(
    width: int, attribute_length: int = 0
) -> tfds.features.FeaturesDict:
  """Returns the features of a record of `width` tokens.

  With an `attribute_length`, it has an attribute of so many tokens, too.
  """
  attribute = {
      "attribute": tfds.features.Tensor(
          shape=(attribute_length,), dtype=np.int32
      ),
      "attribute_length": tfds.features.Scalar(dtype=np.int32),
  }
  return tfds.features.FeaturesDict({
      **(attribute if attribute_length else {}),
      "tokens": tfds.features.Tensor(shape=(width,), dtype=np.int32),
      "weights": tfds.features.Tensor(shape=(width,), dtype=np.uint8),
      "length": tfds.features.Scalar(dtype=np.int32),
      "source": tfds.features.Scalar(dtype=np.int32),
  })


def examples(
    rows: sequences.Rows,
    source: int,
    attribute: np.ndarray | None,
    attribute_length: int,
) -> Iterator[dict[str, np.ndarray]]:
  """Yields the fields of a record for each row.

  Args:
    rows: the sequences.
    source: index of their source.
    attribute: int32 [a], the tokens of the attribute that all rows have; None
      where there are no attributes.
    attribute_length: the most tokens of one; 0 for no attributes.
  """
  extra = {}
  if attribute_length:
    padded = np.zeros(attribute_length, np.int32)
    padded[: attribute.size] = attribute
    extra = dict(attribute=padded, attribute_length=np.int32(attribute.size))
  for tokens, weights, length in zip(*rows, strict=True):
    yield extra | {
        "tokens": tokens,
        "weights": weights,
        "length": length,
        "source": np.int32(source),
    }


def content_digest(index: int, fields: Mapping[str, np.ndarray | int]) -> int:
  """Returns a record's part of `content_hash`, from its place in the split."""
  digest = hashlib.sha256(b"%d" % index)
  for name in sorted(fields):
    value = fields[name]  # A scalar is read back as an int.
    dtype = value.dtype if isinstance(value, np.ndarray) else np.int32
    digest.update(np.asarray(value, dtype).tobytes())
  return int.from_bytes(digest.digest(), "big")


def content_hash(total: int) -> str:
  """Returns a split's hash from the sum of its records' `content_digest`.

  A sum, so that machines that write parts of a split need no order.
  """
  return f"{total % 2**256:064x}"


class Writer:
  """Writes one split, record by record; memory does not grow.

  Args:
    folder: where the shards go.
    split: name of the split.
    width: tokens a record.
    attribute_length: tokens of an attribute at most; 0 for no attributes.
    shard_records: most records in a shard.
  """

  def __init__(
      self,
      folder,
      split: str,
      width: int,
      attribute_length: int = 0,
      shard_records=_SHARD_RECORDS,
  ):
    self.size = 0
    self._folder = pathlib.Path(folder)
    self._split = split
    self._shard_records = shard_records
    self._serializer = tfds.core.example_serializer.ExampleSerializer(
        features(width, attribute_length).get_serialized_info()
    )
    self._attribute_length = attribute_length
    self._content = 0
    self._bytes = 0
    self._lengths = []  # Records in each shard.
    self._shard = None

  def write(
      self,
      rows: sequences.Rows,
      source: int,
      attribute: np.ndarray | None = None,
  ) -> None:
    """Appends rows of the source with this index.

    Args:
      rows: the sequences.
      source: the index.
      attribute: int32 [a], the tokens of the attribute that all rows have;
        None where there are no attributes.

    Raises:
      errors.UserError: the disk is full.
    """
    for fields in examples(rows, source, attribute, self._attribute_length):
      self._content += content_digest(self.size, fields)
      self._write_one(fields)

  def _write_one(self, fields: dict) -> None:
    if self._shard is None or self._lengths[-1] == self._shard_records:
      self.close()
      path = self._folder / f"{self._split}-{len(self._lengths)}"
      self._shard = array_record_module.ArrayRecordWriter(str(path), OPTIONS)
      self._lengths.append(0)
    record = self._serializer.serialize_example(fields)
    with self._write_errors():
      self._shard.write(record)
    self._lengths[-1] += 1
    self._bytes += len(record)
    self.size += 1

  def close(self) -> None:
    """Closes the shard that is open."""
    if self._shard is not None:
      with self._write_errors():
        self._shard.close()
      self._shard = None

  @contextlib.contextmanager
  def _write_errors(self):
    try:
      yield
    except (RuntimeError, OSError) as e:  # array_record writes in background.
      raise errors.UserError(
          f"Cannot write records in {str(self._folder)!r}:"
          f" {str(e).split(';')[0]}. Free some space, or choose a folder on"
          " another disk."
      ) from e

  def finish(self) -> tuple[tfds.core.SplitInfo, str]:
    """Names the shards; returns the split's description and content hash."""
    self.close()
    template = tfds.core.ShardedFileTemplate(
        dataset_name=NAME,
        data_dir=self._folder,
        split=self._split,
        filetype_suffix="array_record",
    )
    for i in range(len(self._lengths)):
      name = template.sharded_filepath(
          shard_index=i, num_shards=len(self._lengths)
      )
      (self._folder / f"{self._split}-{i}").rename(name)
    info = tfds.core.SplitInfo(
        name=self._split,
        shard_lengths=self._lengths,
        num_bytes=self._bytes,
        filename_template=template,
    )
    return info, content_hash(self._content)


def write_info(
    folder,
    width: int,
    splits: list[tfds.core.SplitInfo],
    attribute_length: int = 0,
) -> None:
  """Writes tensorflow-datasets' own description of the data set."""
  identity = tfds.core.dataset_info.DatasetIdentity(
      name=NAME,
      version=tfds.core.Version(VERSION),
      data_dir=str(folder),
      module_name=NAME,
  )
  info = tfds.core.DatasetInfo(
      builder=identity,
      description="Token sequences, each with its control code in front.",
      features=features(width, attribute_length),
      disable_shuffling=True,
  )
  info.set_file_format("array_record")
  info.set_splits(
      tfds.core.splits.SplitDict([s for s in splits if s.num_shards])
  )
  info.write_to_directory(folder)


def open_split(folder, split: str) -> Sequence[Mapping]:
  """Returns a random-access sequence of a split's records.

  Each is a dict: tokens int32 [W], weights uint8 [W], and the integers length
  and source.

  Raises:
    errors.UserError: the files are damaged; reading a damaged record raises it
      too.
  """
  if indexed.is_index(folder):
    return indexed.open_split(folder, split)
  try:
    builder = tfds.builder_from_directory(folder)
    if split not in builder.info.splits:
      return []
    info = builder.info.splits[split]
    return _Checked(builder.as_data_source(split=split), info)
  except Exception as e:  # A dozen kinds, protobuf's among them.
    raise _damaged(folder, e) from e


class _Checked(Sequence):
  """Records whose reading errors name the file."""

  def __init__(self, data, info: tfds.core.SplitInfo):
    self._data = data
    self._files = [str(path) for path in info.filepaths]
    self._ends = list(itertools.accumulate(info.shard_lengths))

  def __len__(self) -> int:
    return len(self._data)

  def __getitem__(self, index: int) -> dict:
    try:
      return self._data[index]
    except Exception as e:  # array_record raises what C++ does, and protobuf.
      if not 0 <= index < len(self):
        raise IndexError(index) from e
      file = self._files[bisect.bisect_right(self._ends, index)]
      raise _damaged(file, e) from e


def _damaged(path, e: Exception) -> errors.UserError:
  return errors.UserError(
      f"Damaged records in {str(path)!r}: {' '.join(str(e).split())[:200]}."
      " Prepare the data set again with --force."
  )
