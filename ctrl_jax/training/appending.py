"""Adding to the end of a file, on a disk or in a bucket."""

import time

from etils import epath

from ctrl_jax import errors

# Between two uploads of a file in a bucket, which takes it up whole each time.
_SECONDS = 60.0


class Appender:
  """A text file that grows.

  A line is on the disk when `write` returns. A bucket's files cannot grow (what
  opens one to append to it overwrites it): theirs are kept in memory and
  written anew, once a minute, at `flush` and at `close`.
  """

  def __init__(self, file: epath.Path):
    self._file = file
    self._remote = "://" in str(file)
    if self._remote:
      self._text = file.read_text() if file.exists() else ""
      self._uploaded, self._time = self._text, time.monotonic()
    else:
      self._open = file.open("a")

  def write(self, text: str) -> None:
    """Adds `text`."""
    if self._remote:
      self._text += text
      if time.monotonic() - self._time >= _SECONDS:
        self.flush()
    else:
      with errors.naming(self._file):
        self._open.write(text)
        self._open.flush()

  def flush(self) -> None:
    """Returns when all is where it belongs."""
    if self._remote and self._uploaded != self._text:
      self._file.write_text(self._text)
      self._uploaded, self._time = self._text, time.monotonic()

  def close(self) -> None:
    """Ends it; a bucket's file is written."""
    self.flush()
    if not self._remote:
      self._open.close()

  def __enter__(self) -> "Appender":
    return self

  def __exit__(self, *_) -> None:
    self.close()
