"""Packed files, read to their end: damage is an error, never a short text.

Python's own readers of `.bz2` and `.xz` take whatever follows the first stream
for padding when it does not begin as a stream does, and end there.
"""

import bz2
import gzip
import io
import lzma
import zlib
from typing import BinaryIO

from ctrl_jax.data import buckets

# What damage raises; an error of the file system has a number, these have none.
ERRORS = (EOFError, OSError, zlib.error, lzma.LZMAError)
# Format -> how its files begin.
MAGIC = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\x00"}
_NEW = {"bz2": bz2.BZ2Decompressor, "xz": lzma.LZMADecompressor}
_CHUNK = 1 << 16


def is_damage(error: Exception) -> bool:
  """Whether one of `ERRORS` is of the content, not of the file system."""
  return not isinstance(error, OSError) or error.errno is None


def format_of(file: str) -> str:
  """Returns the format that a file's first bytes are of, "" for another."""
  with buckets.open_file(file) as f:
    start = f.read(6)
  return next((k for k, m in MAGIC.items() if start.startswith(m)), "")


def open_packed(file: str, format_: str) -> BinaryIO:
  """Opens a file for reading what is packed in it, all streams.

  Args:
    file: the file, here or in a bucket; reading it raises one of `ERRORS` where
      it is damaged.
    format_: of `MAGIC`, "" for a file that is not packed.
  """
  if not format_:
    return buckets.open_file(file)
  if format_ == "gz":  # Checks all that there is to check.
    return _Gzip(buckets.open_file(file))
  return io.BufferedReader(_Streams(file, _NEW[format_]), _CHUNK)


class _Gzip(gzip.GzipFile):
  """Closes the file that it unpacks, too."""

  def __init__(self, file: BinaryIO):
    self._packed = file
    super().__init__(fileobj=file, mode="rb")

  def close(self) -> None:
    super().close()
    self._packed.close()


class _Streams(io.RawIOBase):
  """The content of one stream after the other."""

  def __init__(self, file: str, new):
    self._file = buckets.open_file(file)
    self._new = new
    self._stream = new()
    self._rest = b""  # Behind the stream that has ended.

  def readable(self) -> bool:
    return True

  def close(self) -> None:
    self._file.close()
    super().close()

  def readinto(self, buffer) -> int:
    while True:
      packed = self._next()
      if packed is None:
        return 0
      data = self._stream.decompress(packed, len(buffer))
      if self._stream.eof:
        self._rest = self._stream.unused_data
      if data:
        buffer[: len(data)] = data
        return len(data)

  def _next(self) -> bytes | None:
    """Returns bytes for the stream, of a new one if need be; None at the end.
    """
    if not self._stream.eof:
      if not self._stream.needs_input:
        return b""
      packed = self._file.read(_CHUNK)
      if not packed:
        raise EOFError("its end is missing")
      return packed
    # Streams may be padded with zeros (xz file format 2.2).
    while not (rest := self._rest.lstrip(b"\0")):
      self._rest = self._file.read(_CHUNK)
      if not self._rest:
        return None
    self._stream = self._new()
    return rest
