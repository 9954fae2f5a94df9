"""Finding and reading text files, with errors that name file and line."""

import contextlib
import glob
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from ctrl_jax import errors
from ctrl_jax.data import buckets, packed


def expand(path: str) -> str:
  """Returns `path` with `~`, $NAME and ${NAME} replaced.

  Raises:
    errors.UserError: a variable is not set, or empty: `$NAME/x` would be `/x`.
  """

  def value(match: re.Match) -> str:
    name = match[1] or match[2]
    if not os.environ.get(name):
      state = "empty" if name in os.environ else "not set"
      raise errors.UserError(
          f"The path {path!r} needs the environment variable {name}, which is"
          f" {state}. Set it: export {name}=FOLDER."
      )
    return os.environ[name]

  return os.path.expanduser(re.sub(r"\$(?:(\w+)|\{(\w+)\})", value, path))


def find(paths: Sequence[str]) -> list[str]:
  """Returns the files that paths and globs name, each once, sorted in a glob.

  They may lie in a bucket, `gs://bucket/folder/*.jsonl.gz`.

  Raises:
    errors.UserError: a path names no file, or an empty one, or a bucket
      cannot be read.
  """
  found = {}
  for path in map(expand, paths):
    if buckets.is_remote(path):
      matches, origin = buckets.sizes(path), ""
    else:
      matches, origin = _sizes(path), f" (from {os.getcwd()!r})"
    if not matches:
      raise errors.UserError(
          f"No file {path!r}{origin}. Check the source's path."
      )
    found.update(matches)
  for file, size in found.items():
    if not size:
      raise errors.UserError(f"{file!r} is empty. Remove it from the sources.")
  return list(found)


def _sizes(path: str) -> dict[str, int]:
  # A file whose name holds a `[` is meant as it stands.
  matches = [path] if os.path.exists(path) else sorted(glob.glob(path))
  return {m: os.path.getsize(m) for m in matches if os.path.isfile(m)}


def lines(file: str) -> Iterator[str]:
  """Yields the lines of a UTF-8 file with their ends.

  Reads `.gz`, `.bz2` and `.xz` too. A byte order mark at the start is dropped,
  and Windows' line ends become ordinary ones.

  Raises:
    errors.UserError: bytes that are not UTF-8, or a damaged compressed file.
  """
  number = 0
  try:
    with (
        naming_damage(file, lambda: f" after line {number}"),
        open_binary(file) as f,
    ):
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


@contextlib.contextmanager
def naming_damage(file: str, place: Callable[[], str] = lambda: ""):
  """Turns what reading a damaged packed file raises into one line.

  Args:
    file: the file.
    place: says how far it was read, " after line 3".

  Raises:
    errors.UserError: the file is damaged.
  """
  try:
    yield
  except packed.ERRORS as e:
    if not packed.is_damage(e):
      raise
    raise errors.UserError(
        f"{file}: damaged {suffix(file)} file{place()} ({e}). Get it again."
    ) from e


def open_binary(file: str) -> BinaryIO:
  """Opens a file, unpacked where its name ends in `.gz`, `.bz2` or `.xz`.

  Raises:
    errors.UserError: it is packed in a way that Python does not read.
  """
  if file.endswith((".zst", ".7z", ".zip", ".rar")):
    raise errors.UserError(
        f"{file!r}: {suffix(file)} files are not read. Unpack it (zstd -d for"
        " .zst), or pack it as .gz, .bz2 or .xz, and name that file."
    )
  end = os.path.splitext(file)[1].removeprefix(".")
  return packed.open_packed(file, end if end in packed.MAGIC else "")


def suffix(file: str) -> str:
  """Returns how a compressed file's format is called, by its name.

  >>> suffix("a.jsonl.gz")
  'gzip'
  """
  end = os.path.splitext(file)[1].removeprefix(".")
  return {"gz": "gzip"}.get(end, end)


def json_objects(file: str) -> Iterator[tuple[dict, str]]:
  """Yields the JSON object of each line that is not blank, and its place.

  Raises:
    errors.UserError: see `lines`; or a line that holds something else.
  """
  for number, line in enumerate(lines(file), 1):
    if not line.strip():
      continue
    where = f"{file}:{number}"
    try:
      fields = json.loads(line)
    except (ValueError, RecursionError) as e:
      raise errors.UserError(f"{where}: not JSON: {e}.") from e
    if not isinstance(fields, dict):
      raise errors.UserError(f"{where}: not a JSON object, {line[:40]!r}.")
    yield fields, where
