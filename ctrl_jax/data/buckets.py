"""Files in a bucket, `gs://bucket/folder/file`: found, read, copied.

All goes through etils' epath; gs:// needs `pip install gcsfs`, s3:// s3fs, and
credentials where the bucket is not public. Each kind of bucket raises errors of
its own: here they become one line.
"""

import contextlib
import io
import os
import pathlib
from collections.abc import Iterator
from typing import BinaryIO

from etils import epath

from ctrl_jax import errors

_CHUNK = 1 << 24  # Bytes in memory at a time.
_BUFFER = 1 << 20


def is_remote(path: str) -> bool:
  """Whether `path` is in a bucket.

  Raises:
    errors.UserError: it is an address of another kind, a web page's.
  """
  scheme, mark, _ = path.partition("://")
  if mark and scheme in ("http", "https", "file"):
    raise errors.UserError(
        f"{path!r} is an address, not a path: give one on this machine, or in a"
        " bucket (gs://...), or a model's name on the hub (`gpt2`)."
    )
  return bool(mark)


@contextlib.contextmanager
def reaching(path, action: str = "read") -> Iterator[None]:
  """Turns what a bucket raises into one line.

  Args:
    path: what is asked for.
    action: what is done with it, for the message.

  Raises:
    errors.UserError: the bucket raised an error.
    errors.Passing: the same, of a kind that may be gone at the next start.
  """
  try:
    yield
  except (errors.UserError, MemoryError):
    raise
  except Exception as e:  # Each kind of bucket raises its own.
    reason = " ".join(str(e).split())[:200]
    line = f"Cannot {action} {str(path)!r} ({type(e).__name__}: {reason})."
    if errors.is_passing(e):
      raise errors.Passing(f"{line} Try again.") from e
    raise errors.UserError(
        f"{line} Check the path and your credentials; gs:// needs: pip install"
        " gcsfs."
    ) from e


def sizes(pattern: str) -> dict[str, int]:
  """Returns the files in a bucket that a path or glob names, sorted.

  Returns:
    file -> its bytes; empty if there is none.

  Raises:
    errors.UserError: the bucket cannot be read.
  """
  with reaching(pattern):
    place = epath.Path(pattern)
    # A file whose name holds a `[` is meant as it stands.
    found = [place] if place.exists() else place.parent.glob(place.name)
    stats = {str(p): p.stat() for p in sorted(found)}
    return {k: s.length for k, s in stats.items() if not s.is_directory}


def size(path) -> int | None:
  """Returns the bytes of a file here or in a bucket, None if there is none."""
  path = os.fspath(path)
  if is_remote(path):
    with reaching(path):
      place = epath.Path(path)
      stat = place.stat() if place.exists() else None
      return None if stat is None or stat.is_directory else stat.length
  return os.path.getsize(path) if os.path.isfile(path) else None


def open_file(path) -> BinaryIO:
  """Opens a file here or in a bucket for reading, front to back.

  Raises:
    errors.UserError: one in a bucket cannot be read (here: an OSError).
  """
  path = os.fspath(path)
  if is_remote(path):
    return io.BufferedReader(_Stream(path), _BUFFER)
  return open(path, "rb")


class _Stream(io.RawIOBase):
  """A file in a bucket, read to the end that it had when it was opened."""

  def __init__(self, path: str):
    self._path = path
    self._read = 0
    with reaching(path):
      place = epath.Path(path)
      self._size = place.stat().length
      self._file = place.open("rb")

  def readable(self) -> bool:
    return True

  def close(self) -> None:
    if not self.closed:
      self._file.close()
    super().close()

  def readinto(self, buffer) -> int:
    with reaching(self._path):
      data = self._file.read(len(buffer))
    if not data and self._read != self._size:
      raise errors.Passing(
          f"{self._path} has {self._size} bytes, of which {self._read} came:"
          " it has changed, or the connection broke. Try again."
      )
    buffer[: len(data)] = data
    self._read += len(data)
    return len(data)


def download(path, target: pathlib.Path, digest=None) -> None:
  """Copies a file from a bucket to this machine.

  Args:
    path: the file.
    target: where to; its folder is made.
    digest: of hashlib, updated with the content.

  Raises:
    errors.UserError: it cannot be read.
  """
  target.parent.mkdir(parents=True, exist_ok=True)
  with open_file(path) as f, target.open("wb") as g:
    while chunk := f.read(_CHUNK):
      g.write(chunk)
      if digest is not None:
        digest.update(chunk)


def upload(source: pathlib.Path, path) -> None:
  """Copies a file of this machine to a bucket.

  Raises:
    errors.UserError: it cannot be written, or has not come whole.
  """
  expected = source.stat().st_size
  with reaching(path, "write"), source.open("rb") as f:
    with epath.Path(path).open("wb") as g:
      while chunk := f.read(_CHUNK):
        g.write(chunk)
  if (found := size(path)) != expected:
    raise errors.Passing(
        f"{os.fspath(path)} has {found} bytes where {expected} were written."
        " Try again."
    )
