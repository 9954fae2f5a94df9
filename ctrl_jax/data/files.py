"""Finding and reading text files, with errors that name file and line."""

import glob
import gzip
import os
import re
import zlib
from collections.abc import Iterator, Sequence

from ctrl_jax import errors


def expand(path: str) -> str:
  """Returns `path` with `~`, $NAME and ${NAME} replaced.

  Raises:
    errors.UserError: a variable is not set.
  """

  def value(match: re.Match) -> str:
    name = match[1] or match[2]
    if name not in os.environ:
      raise errors.UserError(
          f"The path {path!r} needs the environment variable {name}, which is"
          f" not set. Set it: export {name}=FOLDER."
      )
    return os.environ[name]

  return os.path.expanduser(re.sub(r"\$(?:(\w+)|\{(\w+)\})", value, path))


def find(paths: Sequence[str]) -> list[str]:
  """Returns the files that paths and globs name, each once, sorted in a glob.

  Raises:
    errors.UserError: a path names no file, or an empty one.
  """
  found = {}
  for path in map(expand, paths):
    # A file whose name holds a `[` is meant as it stands.
    matches = [path] if os.path.exists(path) else sorted(glob.glob(path))
    matches = [m for m in matches if os.path.isfile(m)]
    if not matches:
      raise errors.UserError(
          f"No file {path!r} (from {os.getcwd()!r}). Check the source's path."
      )
    found.update(dict.fromkeys(matches))
  for file in found:
    if not os.path.getsize(file):
      raise errors.UserError(f"{file!r} is empty. Remove it from the sources.")
  return list(found)


def lines(file: str) -> Iterator[str]:
  """Yields the lines of a UTF-8 file with their ends; reads `.gz` too.

  A byte order mark at the start is dropped, and Windows' line ends become
  ordinary ones.

  Raises:
    errors.UserError: bytes that are not UTF-8, or a damaged gzip file.
  """
  opened = gzip.open if file.endswith(".gz") else open
  number = 0
  try:
    with opened(file, "rb") as f:
      for number, line in enumerate(f, 1):
        text = line.decode("utf-8")
        if number == 1:
          text = text.removeprefix("\ufeff")
        yield text[:-2] + "\n" if text.endswith("\r\n") else text
  except UnicodeDecodeError as e:
    raise errors.UserError(
        f"{file}:{number}: not UTF-8 text (byte 0x{e.object[e.start]:02x} at"
        f" position {e.start} of the line). Convert the file to UTF-8."
    ) from e
  except (EOFError, gzip.BadGzipFile, zlib.error) as e:
    raise errors.UserError(
        f"{file}: damaged gzip file after line {number} ({e}). Get it again."
    ) from e
