"""TFRecord files of the original CTRL's tool, without TensorFlow.

A record is a `tf.train.Example` with the features `input` and `output`, int64
lists: `input` is the control code and the text, `output` the text one token
further (training_utils/make_tf_records.py).

Sources: tensorflow/core/lib/io/record_writer.h, core/example/example.proto.
"""

import gzip
import operator
import os
import pathlib
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ctrl_jax import errors
from ctrl_jax.data import buckets, packed
from ctrl_jax.interop import wire
from ctrl_jax.interop.tensorflow_checkpoint import masked_crc

_GZIP = b"\x1f\x8b"
_MAX_RECORD = 1 << 30
_MAX_ID = 1 << 31


def read(file) -> Iterator[dict[str, np.ndarray]]:
  """Yields each record's int64 features by name; reads gzipped files, too.

  Raises:
    errors.UserError: the file is missing, cut short or damaged.
  """
  for number, (*_, data) in enumerate(_records(file), 1):
    yield _features(data, f"{file}, record {number}")


def rows(file) -> Iterator[np.ndarray]:
  """Yields each record as one sequence, int32: the code, then all of `output`.

  Raises:
    errors.UserError: see `read`; or a record that is not the original tool's.
  """
  for *_, row in places(file):
    yield row


def places(file) -> Iterator[tuple[int, int, np.ndarray]]:
  """Like `rows`, each behind the record's place in the (unpacked) file, bytes,
  and its checksum."""
  for number, (at, crc, data) in enumerate(_records(file), 1):
    where = f"{file}, record {number}"
    yield at, crc, _row(_features(data, where), where)


def row_at(file, at: int) -> tuple[int, np.ndarray]:
  """Returns the checksum and the row, int32, at a place that `places` gave.

  Args:
    file: not gzipped.
    at: bytes from its beginning.

  Raises:
    errors.UserError: see `rows`.
  """
  where = f"{file}, byte {at}"
  try:
    with open(file, "rb") as f:
      f.seek(at)
      crc, data = _record(f, f.read(8))
  except FileNotFoundError as e:
    raise errors.UserError(f"No file {str(file)!r}.") from e
  except ValueError as e:
    raise errors.UserError(
        f"{where}: damaged or cut short ({e}). Make it again."
    ) from e
  return crc, _row(_features(data, where), where)


def is_gzipped(file) -> bool:
  """Whether a file's first bytes are gzip's."""
  with buckets.open_file(file) as f:
    return f.read(2) == _GZIP


def write(file, sequences: Iterable[Sequence[int]], gzipped=False) -> int:
  """Writes sequences as the original's tool does; returns how many.

  The file appears complete or not at all.

  Args:
    file: where to.
    sequences: ids, the control code first; of any length from 2. (The
      original's training reads sequences of 257 alone.)
    gzipped: whether to compress.

  Raises:
    errors.UserError: a sequence that is too short, or holds what is no id.
  """
  file = pathlib.Path(file)
  partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
  count = 0
  try:
    opened = gzip.open(partial, "wb") if gzipped else partial.open("wb")
    with errors.naming(file), opened as f:
      for count, ids in enumerate(sequences, 1):
        ids = _checked(ids, f"{file}, sequence {count}")
        data = _to_example({"input": ids[:-1], "output": ids[1:]})
        size = len(data).to_bytes(8, "little")
        f.write(size + masked_crc(size).to_bytes(4, "little"))
        f.write(data + masked_crc(data).to_bytes(4, "little"))
    partial.replace(file)
  finally:
    partial.unlink(missing_ok=True)
  return count


def _checked(ids: Sequence[int], where: str) -> list[int]:
  try:
    ids = list(map(operator.index, ids))
  except TypeError as e:
    raise errors.UserError(f"{where}: {e}; give whole numbers.") from e
  if len(ids) < 2 or min(ids) < 0 or max(ids) >= _MAX_ID:
    raise errors.UserError(
        f"{where}: give the control code's id and at least one of text, each"
        " from 0 and below 2^31."
    )
  return ids


def _features(data: bytes, where: str) -> dict[str, np.ndarray]:
  try:
    return _example(data)
  except (ValueError, AttributeError, TypeError) as e:
    raise errors.UserError(f"{where}: no tf.train.Example ({e}).") from e


def _row(features: dict[str, np.ndarray], where: str) -> np.ndarray:
  missing = {"input", "output"} - features.keys()
  if missing:
    raise errors.UserError(
        f"{where}: no int64 feature {sorted(missing)[0]!r}; it has"
        f" {', '.join(sorted(features)) or 'none'}."
    )
  given, target = features["input"], features["output"]
  if len(given) != len(target) or not len(given) or (
      not np.array_equal(given[1:], target[:-1])
  ):
    raise errors.UserError(
        f"{where}: `output` is not `input` moved by one token, as the"
        " original's make_tf_records.py writes it."
    )
  row = np.concatenate([given[:1], target])
  if row.min() < 0 or row.max() >= _MAX_ID:
    raise errors.UserError(f"{where}: a token id is not one.")
  return row.astype(np.int32)


def _records(file) -> Iterator[tuple[int, int, bytes]]:
  """Yields (place in the unpacked file, checksum, content) of each record."""
  try:
    with packed.open_packed(file, "gz" if is_gzipped(file) else "") as f:
      number = at = 0
      while size := f.read(8):
        number += 1
        crc, data = _record(f, size)
        yield at, crc, data
        at += len(data) + 16  # Its length, and two checksums.
  except FileNotFoundError as e:
    raise errors.UserError(f"No file {str(file)!r}.") from e
  except errors.UserError:  # A bucket's; it is a ValueError, too.
    raise
  except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as e:
    raise errors.UserError(
        f"{file}, record {number}: damaged or cut short ({e}). Make it again."
    ) from e


def _record(f, size: bytes) -> tuple[int, bytes]:
  crc = f.read(4)
  if len(size) < 8 or masked_crc(size).to_bytes(4, "little") != crc:
    raise ValueError("its length does not have its checksum")
  length = int.from_bytes(size, "little")
  if length > _MAX_RECORD:
    raise ValueError(f"{length} bytes")
  data, crc = f.read(length), f.read(4)
  if len(data) < length or masked_crc(data).to_bytes(4, "little") != crc:
    raise ValueError("its content does not have its checksum")
  return int.from_bytes(crc, "little"), data


def _example(data: bytes) -> dict[str, np.ndarray]:
  """features=1 . feature=1 {key=1, value=2 {int64_list=3 {value=1}}}."""
  found = {}
  for number, features in wire.fields(data):
    if number != 1:
      continue
    for number, entry in wire.fields(features):
      entry = dict(wire.fields(entry)) if number == 1 else {}
      for number, values in wire.fields(entry.get(2, b"")):
        if number == 3:
          name = entry.get(1, b"").decode("utf-8")
          found[name] = _int64_list(values)
  return found


def _int64_list(data: bytes) -> np.ndarray:
  values = [
      # One by one, or packed, as TensorFlow writes them.
      np.array([value], np.uint64) if isinstance(value, int)
      else wire.varints(value)
      for number, value in wire.fields(data) if number == 1
  ]
  return np.concatenate([np.zeros(0, np.uint64), *values]).view(np.int64)


def _to_example(features: dict[str, Sequence[int]]) -> bytes:
  entries = []
  for name, values in sorted(features.items()):
    packed = b"".join(map(wire.to_varint, values))
    value = wire.message((3, wire.message((1, packed))))
    entries.append((1, wire.message((1, name.encode()), (2, value))))
  return wire.message((1, wire.message(*entries)))
