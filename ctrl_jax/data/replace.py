"""Writing a folder as a whole: it appears complete or not at all."""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator

import filelock

from ctrl_jax import errors


@contextlib.contextmanager
def replacing(folder) -> Iterator[pathlib.Path]:
  """Gives a new folder beside `folder` that takes its place at the end.

  When the block raises, what was written is removed and the old folder, if
  any, stays as it is. What a killed run left behind is removed at the start.

  Args:
    folder: what to make or to replace.

  Raises:
    errors.UserError: another process is at it.
  """
  folder = pathlib.Path(os.path.abspath(folder))
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
    with _replacing(folder) as partial:
      yield partial
  finally:
    lock.release()
    pathlib.Path(lock.lock_file).unlink(missing_ok=True)


@contextlib.contextmanager
def _replacing(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  partial = folder.with_name(f".{folder.name}.partial")
  old = folder.with_name(f".{folder.name}.old")
  _recover(folder, partial, old)
  partial.mkdir()
  try:
    with errors.naming(folder):
      yield partial
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
