"""Writing a folder as a whole: it appears complete or not at all.

Nothing but an earlier folder of the same kind is ever replaced.
"""

import contextlib
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator
from typing import NamedTuple

import filelock

from ctrl_jax import errors


class Kind(NamedTuple):
  """What is made, and so what may be replaced.

  Attributes:
    name: for messages, "data set".
    is_one: whether a folder that is not empty is one of these.
    mend: what to do instead, "Choose another --output."
  """

  name: str
  is_one: Callable[[pathlib.Path], bool]
  mend: str


def resolve(folder) -> pathlib.Path:
  """Returns the one path that is checked and written: no links, no `..`.

  `missing/../x` is no folder for the system and would pass a check, yet means
  `x` to whoever shortens it.

  Raises:
    errors.UserError: see `check_is_local`.
  """
  check_is_local(folder)
  return pathlib.Path(folder).resolve()


def check_is_local(path) -> None:
  """Refuses to write into a bucket, which would become a folder `gs:` here.

  Args:
    path: a folder or file, as a string or a Path.

  Raises:
    errors.UserError: it is in a bucket.
  """
  # A Path has dropped the second slash.
  name, found = re.subn(r"^(\w+:)//?", r"\1//", str(path))
  if found:
    raise errors.UserError(
        f"{name!r} must be a place on this machine, or mounted on it:"
        " copy it to the bucket afterwards (gcloud storage rsync --recursive)."
    )


def check(folder, kind: Kind) -> None:
  """Refuses to replace what is not of this kind.

  Args:
    folder: what to make or to replace; may be missing or empty.
    kind: what it may be.

  Raises:
    errors.UserError: it is something else, or in a bucket.
  """
  folder = resolve(folder)
  if not folder.exists():
    return
  if folder.is_dir() and (kind.is_one(folder) or not any(folder.iterdir())):
    return
  raise errors.UserError(
      f"{str(folder)!r} is there and is no {kind.name} of this program: it is"
      f" left alone. {kind.mend}"
  )


@contextlib.contextmanager
def replacing(folder, kind: Kind) -> Iterator[pathlib.Path]:
  """Gives a new folder beside `folder` that takes its place at the end.

  When the block raises, what was written is removed and the old folder, if
  any, stays as it is. What a killed run left behind is removed at the start.

  Args:
    folder: what to make or to replace.
    kind: what is made.

  Raises:
    errors.UserError: another process is at it, or something of another kind
      is there; that is left as it is.
  """
  folder = resolve(folder)
  check(folder, kind)
  folder.parent.mkdir(parents=True, exist_ok=True)
  # The system lets go of the lock of a process that was killed.
  lock = filelock.FileLock(folder.with_name(f".{folder.name}.lock"), timeout=0)
  try:
    lock.acquire()
  except filelock.Timeout as e:
    raise errors.UserError(
        f"Another process is making {str(folder)!r}: wait for its end, or stop"
        " it."
    ) from e
  try:
    with _replacing(folder, kind) as partial:
      yield partial
  finally:
    lock.release()
    pathlib.Path(lock.lock_file).unlink(missing_ok=True)


@contextlib.contextmanager
def _replacing(folder: pathlib.Path, kind: Kind) -> Iterator[pathlib.Path]:
  partial = folder.with_name(f".{folder.name}.partial")
  old = folder.with_name(f".{folder.name}.old")
  check(old, kind._replace(mend=f"Move it away to make {str(folder)!r}."))
  _recover(folder, partial, old)
  partial.mkdir()
  try:
    with errors.naming(folder):
      yield partial
    check(folder, kind)  # Again: the work before may have taken hours.
    if folder.exists():
      folder.rename(old)
    partial.rename(folder)
  except BaseException:
    _recover(folder, partial, old)
    raise
  shutil.rmtree(old, ignore_errors=True)


def _recover(folder, partial, old) -> None:
  """Undoes whatever an interrupted run had done."""
  if old.exists():
    if folder.exists():
      shutil.rmtree(old)
    else:
      old.rename(folder)
  if partial.exists():
    shutil.rmtree(partial)
