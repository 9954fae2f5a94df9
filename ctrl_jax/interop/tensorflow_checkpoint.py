"""TensorFlow 1 checkpoints, read without TensorFlow.

`PREFIX.index` is a sorted table in LevelDB's format, from a tensor's name to
where it lies in `PREFIX.data-0000i-of-0000n`, with checksums of both.

Sources: tensorflow/core/util/tensor_bundle, tensorflow/core/lib/io/format.cc,
google/leveldb doc/table_format.md.
"""

import pathlib
import re
from typing import NamedTuple

import google_crc32c
import numpy as np
from jax import numpy as jnp

from ctrl_jax import errors
from ctrl_jax.interop import wire

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
# tensorflow/core/framework/types.proto
_DTYPES = {1: np.float32, 2: np.float64, 3: np.int32, 9: np.int64,
           14: jnp.bfloat16, 19: np.float16}


class Entry(NamedTuple):
  """Where a tensor lies."""

  dtype: np.dtype
  shape: tuple[int, ...]
  shard: int
  offset: int
  size: int
  crc: int


class Checkpoint:
  """A checkpoint's tensors by name.

  Args:
    path: its folder (then the file `checkpoint` there says which), its prefix
      (`model.ckpt-413000`), or one of its files.

  Attributes:
    prefix: the path without what the files' names add.
    entries: name -> `Entry`.

  Raises:
    errors.UserError: a file is missing or damaged.
  """

  def __init__(self, path):
    self.prefix = find(pathlib.Path(path))
    if self.prefix is None:
      raise errors.UserError(
          f"{str(path)!r} is no TensorFlow checkpoint: expected a folder with"
          " the file `checkpoint`, or PREFIX with PREFIX.index beside it."
      )
    file = self.prefix.with_name(self.prefix.name + ".index")
    self._num_shards = 1
    self.entries = {}
    try:
      for key, value in _table(file.read_bytes()):
        if key:
          entry = _entry(value)
          if entry is not None:
            self.entries[key.decode("utf-8")] = entry
        else:
          self._num_shards = int(dict(wire.fields(value)).get(1, 1))
    # What else than a message where one should be raises as well.
    except (ValueError, IndexError, TypeError, AttributeError) as e:
      raise errors.UserError(f"{file} is damaged ({e}): copy it again.") from e
    except FileNotFoundError as e:
      raise errors.UserError(f"No file {str(file)!r}: copy it there.") from e

  def read(self, name: str) -> np.ndarray:
    """Returns a tensor, its checksum compared.

    Raises:
      errors.UserError: the file is missing, too short or damaged.
    """
    entry = self.entries[name]
    file = self.prefix.with_name(
        f"{self.prefix.name}.data-{entry.shard:05d}-of-{self._num_shards:05d}"
    )
    try:
      size = file.stat().st_size
      data = b""
      if entry.offset + entry.size <= size:
        with file.open("rb") as f:
          f.seek(entry.offset)
          data = f.read(entry.size)
    except FileNotFoundError as e:
      raise errors.UserError(f"No file {str(file)!r}: copy it there.") from e
    if len(data) != entry.size or masked_crc(data) != entry.crc:
      raise errors.UserError(
          f"{file} is damaged: the tensor {name!r} does not have its checksum."
          " Copy it again."
      )
    try:
      return np.frombuffer(data, entry.dtype).reshape(entry.shape)
    except (ValueError, OverflowError) as e:
      raise errors.UserError(
          f"{file} is damaged: the tensor {name!r} does not have the shape"
          f" {entry.shape} ({e}). Copy it again."
      ) from e


def find(path: pathlib.Path) -> pathlib.Path | None:
  """Returns the prefix of the checkpoint that `path` means, None if none."""
  if path.is_dir():
    state = path / "checkpoint"
    if state.is_file():
      text = state.read_text(encoding="utf-8", errors="replace")
      named = re.search(r'^model_checkpoint_path: "(.*)"', text, re.M)
      if named:
        # An absolute path is that of the machine which wrote it.
        return path / pathlib.PurePosixPath(named[1]).name
    indices = sorted(path.glob("*.index"))
    return indices[0].with_suffix("") if len(indices) == 1 else None
  name = re.sub(r"(?<=.)\.(index|meta|data-\d+-of-\d+)$", "", path.name)
  if not name:
    return None
  prefix = path.with_name(name)
  return prefix if path.with_name(name + ".index").is_file() else None


def masked_crc(data: bytes) -> int:
  """CRC-32C as TensorFlow stores it."""
  crc = google_crc32c.value(data)
  return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _table(data: bytes):
  """Yields (key, value) of a LevelDB table."""
  footer = data[-_FOOTER:]
  if len(footer) < _FOOTER or int.from_bytes(footer[-8:], "little") != _MAGIC:
    raise ValueError("its last bytes are not a table's")
  at = 0
  for _ in range(2):  # The meta index is not used.
    _, at = wire.varint(footer, at)
  handle = footer[at:]
  for _, value in _block(data, handle):
    yield from _block(data, value)


def _block(data: bytes, handle: bytes):
  """Yields (key, value) of the block at (offset, size)."""
  offset, at = wire.varint(handle, 0)
  size, _ = wire.varint(handle, at)
  content = data[offset:offset + size]
  kind_and_crc = data[offset + size:offset + size + 5]
  if len(kind_and_crc) < 5:
    raise ValueError("a block lies behind its end")
  crc = int.from_bytes(kind_and_crc[1:], "little")
  if masked_crc(content + kind_and_crc[:1]) != crc:
    raise ValueError("a block does not have its checksum")
  if kind_and_crc[0]:
    raise ValueError("its blocks are compressed, which TensorFlow never does")
  restarts = int.from_bytes(content[-4:], "little")
  end = len(content) - 4 * (restarts + 1)
  key, at = b"", 0
  while at < end:
    shared, at = wire.varint(content, at)
    added, at = wire.varint(content, at)
    length, at = wire.varint(content, at)
    key = key[:shared] + content[at:at + added]
    at += added
    yield key, content[at:at + length]
    at += length


def _entry(value: bytes) -> Entry | None:
  """Reads a BundleEntryProto; None for a tensor that is no array of numbers."""
  found = {1: 0, 2: b"", 3: 0, 4: 0, 5: 0, 6: 0} | dict(wire.fields(value))
  if found[1] not in _DTYPES:
    return None
  shape = tuple(
      dict(wire.fields(dim)).get(1, 0)
      for number, dim in wire.fields(found[2]) if number == 2
  )
  dtype = np.dtype(_DTYPES[found[1]])
  if np.prod(shape, dtype=object) * dtype.itemsize != found[5]:
    raise ValueError("a tensor's shape and size disagree")
  return Entry(dtype, shape, found[3], found[4], found[5], found[6])
