"""GGUF files, read through the package `gguf`, checked.

  pip install gguf

Source: the description of the format in ggml-org/ggml, docs/gguf.md.
"""

import functools
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ctrl_jax import errors

_MAGIC = b"GGUF"
_BROKEN = (ValueError, KeyError, IndexError, TypeError, OverflowError,
           RecursionError, MemoryError)


class File(NamedTuple):
  """What a file holds.

  Attributes:
    where: its path.
    fields: what it says of the model, by key.
    tensors: gguf's own descriptions of the tensors, by name.
  """

  where: str
  fields: Mapping[str, Any]
  tensors: Mapping[str, Any]

  def shape(self, name: str) -> list[int]:
    """Returns a tensor's shape, the longest stride first as in NumPy."""
    return [int(n) for n in reversed(self.tensors[name].shape)]

  def get(self, name: str) -> np.ndarray:
    """Returns a tensor in float32; gguf dequantises it.

    Raises:
      errors.UserError: gguf has no way to read its type.
    """
    import gguf

    tensor = self.tensors[name]
    try:
      x = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError as e:
      raise errors.UserError(
          f"{self.where}: {name} is kept as {tensor.tensor_type.name}, which"
          " the package gguf cannot turn into numbers: get the model in another"
          " quantisation."
      ) from e
    return np.asarray(x, np.float32)


def find(path: pathlib.Path) -> pathlib.Path | None:
  """Returns the GGUF file that a path means: itself, or the one in a folder.

  A folder with a `config.json` means the model that this describes.

  Raises:
    errors.UserError: there are several in the folder.
  """
  if path.is_dir():
    found = sorted(path.glob("*.gguf"))
    if (path / "config.json").is_file():
      return None
    if len(found) > 1:
      raise errors.UserError(
          f"{str(path)!r} holds {len(found)} GGUF files: name one of them,"
          f" {found[0].name}, say."
      )
    return found[0] if len(found) == 1 else None
  if not path.is_file():
    return None
  if path.suffix == ".gguf":
    return path
  with path.open("rb") as f:
    return path if f.read(4) == _MAGIC else None


def read(path: pathlib.Path) -> File:
  """Reads what a file says of itself; tensors are read when asked for.

  Reading again what has not changed costs nothing: model and tokenizer lie in
  one file.

  Raises:
    errors.UserError: gguf is not installed, or the file is damaged or cut off.
  """
  status = path.stat()
  return _read(str(path), status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=1)
def _read(path: str, size: int, changed: int) -> File:
  del size, changed  # The cache's key.
  try:
    import gguf
  except ImportError as e:
    raise errors.UserError(
        f"{path} needs the package gguf: pip install gguf."
    ) from e
  try:
    with np.errstate(all="ignore"):
      reader = _checked(gguf.GGUFReader)(path)
      tensors = {tensor.name: tensor for tensor in reader.tensors}
      _check_places(reader)
      fields = {key: field.contents() for key, field in reader.fields.items()}
  except _BROKEN as e:
    raise errors.UserError(
        f"{path} is damaged or no GGUF file ({e}): get it again."
    ) from e
  return File(path, fields, tensors)


@functools.cache
def _checked(reader):
  """A subclass of gguf's reader that does not read past the end.

  Its array is a plain one, as slicing a memory map takes twice the time.
  """

  class Reader(reader):

    def _get(self, offset, dtype, count=1, **kwargs):
      self.data = self.data.view(np.ndarray)
      end = int(offset) + int(count) * np.dtype(dtype).itemsize
      if end > self.data.size:
        raise ValueError(f"it has {self.data.size} bytes, not {end}")
      return super()._get(int(offset), dtype, int(count), **kwargs)

  return Reader


def _check_places(reader) -> None:
  """Tensors must lie one behind the other, as llama.cpp demands, too."""
  expected = reader.data_offset
  for tensor in reader.tensors:
    if tensor.data_offset != expected:
      raise ValueError(
          f"{tensor.name} lies at {tensor.data_offset}, not {expected}"
      )
    expected += tensor.n_bytes + -tensor.n_bytes % int(reader.alignment)
