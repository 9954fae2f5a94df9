"""Data sets in a bucket, `gs://bucket/folder`: copied here once, or made there.

Records are read at random places, so a data set is trained on from a copy on
this machine, in $CTRL_JAX_CACHE, else ~/.cache/ctrl_jax. A copy is made once,
is whole or not there, and may be deleted when no program reads it.

In the bucket a data set is one as soon as its manifest is there, which comes
last. Until then `data_set.MARK` tells that this program is at it.
"""

import contextlib
import hashlib
import logging
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence

import filelock
from etils import epath

from ctrl_jax import errors
from ctrl_jax.data import buckets, data_set, files, replace
from ctrl_jax.data import manifest as manifest_lib

_LOG = logging.getLogger(__name__)
# Where machines that make a data set together leave its parts.
_WORK = "work"
_KIND = data_set.KIND._replace(mend="Set CTRL_JAX_CACHE to another folder.")


def load(folder: str, hint: str = "") -> manifest_lib.Manifest:
  """Returns the manifest of a data set in a bucket, of its copy here.

  The copy is made unless it is there, whole and of this very manifest. Several
  processes of a machine wait for the one that makes it.

  Args:
    folder: in the bucket.
    hint: what makes the data set, for the message when it is missing.

  Raises:
    errors.UserError: no data set there, a damaged one, or it cannot be read.
  """
  content = manifest_lib.read_bytes(folder, hint)
  manifest = manifest_lib.Manifest.parse(folder, content)
  copy = cached(folder)
  with _waiting(copy):
    if _is_of(copy, content):
      try:
        return manifest_lib.Manifest.load(copy)
      except errors.UserError as e:
        _LOG.warning("%s It is copied again.", e)
    with replace.replacing(copy, _KIND) as partial:
      _download(manifest, partial)
      (partial / manifest_lib.FILE).write_bytes(content)
    return manifest_lib.Manifest.load(copy)


def cached(folder: str) -> pathlib.Path:
  """Returns where the copy of a data set in a bucket lies, or would."""
  folder = str(epath.Path(folder))  # Without a slash at the end.
  root = files.expand(os.environ.get("CTRL_JAX_CACHE") or "~/.cache/ctrl_jax")
  digest = hashlib.sha256(folder.encode()).hexdigest()[:16]
  name = f"{folder.rpartition('/')[2]}-{digest}"
  return replace.resolve(root) / "data" / name


@contextlib.contextmanager
def _waiting(copy: pathlib.Path) -> Iterator[None]:
  """Keeps other processes of this machine from making the same copy."""
  copy.parent.mkdir(parents=True, exist_ok=True)
  lock = filelock.FileLock(f"{copy}.lock")
  try:
    lock.acquire(timeout=0)
  except filelock.Timeout:
    _LOG.info("Waiting for another process that copies %s", copy)
    lock.acquire()
  try:
    yield
  finally:
    lock.release()


def _is_of(copy: pathlib.Path, content: bytes) -> bool:
  file = copy / manifest_lib.FILE
  return file.is_file() and file.read_bytes() == content


def _download(manifest: manifest_lib.Manifest, target: pathlib.Path) -> None:
  manifest.check_sizes()  # Before gigabytes come that are of no use.
  size = sum(info.bytes for info in manifest.files.values())
  _LOG.info("Copying %s, %.1f MB", manifest.folder, size / 1e6)
  for name, info in manifest.files.items():
    digest = hashlib.sha256()
    buckets.download(manifest.folder / name, target / name, digest)
    if digest.hexdigest() != info.sha256:
      raise errors.UserError(
          f"{str(manifest.folder / name)!r} is not what was written, or has"
          " changed while it was copied. Try again, or prepare the data set"
          " again with --force."
      )


def check(folder: str) -> None:
  """Refuses to replace what is no data set in a bucket.

  Raises:
    errors.UserError: something else is there, or the bucket cannot be read.
  """
  with buckets.reaching(folder):
    place = epath.Path(folder)
    # A folder made by hand is an object, which is listed within itself.
    is_used = any(p != place for p in place.iterdir()) if place.is_dir() else (
        place.exists()
    )
  if is_used and not data_set.is_data_set(folder):
    raise errors.UserError(
        f"{folder!r} is there and is no data set of this program: it is left"
        f" alone. {data_set.KIND.mend}"
    )


@contextlib.contextmanager
def replacing(folder: str) -> Iterator[pathlib.Path]:
  """Gives a new folder here, copied to a bucket at the end of the block.

  It becomes the copy that `load` would make. When the block raises, the data
  set in the bucket, if any, stays as it is; when the copying does, what there
  is of the new one is no data set, and the next call replaces it. The copy here
  is whole then: no work is lost.

  Args:
    folder: in the bucket.

  Raises:
    errors.UserError: see `check`; the bucket cannot be written; or another
      process of this machine is at it.
  """
  check(folder)
  place = epath.Path(folder)
  left = _marked(place)
  copy = cached(folder)
  with replace.replacing(copy, _KIND) as partial:
    _mark(place, left)  # Now rather than after hours of work: may it be done?
    try:
      _remove(place / _WORK)  # Of a `gather` that was killed.
      yield partial
      check(folder)  # Again: meanwhile somebody may have used the folder.
    except BaseException:
      if not left:
        with contextlib.suppress(errors.UserError):
          _unlink(place / data_set.MARK)
      raise
  with _waiting(copy):
    try:
      _upload(copy, place)
    except errors.UserError as e:
      raise type(e)(
          f"{e} What was made is whole in {str(copy)!r}: copy its files to"
          f" {folder}, {manifest_lib.FILE} last."
      ) from e


def gather(
    folder: str, make: Callable[[pathlib.Path, epath.Path], list[str]]
) -> None:
  """See `existing.gather`; nothing but the small files passes through here.

  Raises:
    errors.UserError: see `check`; or the bucket cannot be written.
  """
  check(folder)
  place = epath.Path(folder)
  left = _marked(place)
  work = place / _WORK
  with tempfile.TemporaryDirectory() as staging:
    _mark(place, left)
    try:
      _remove(work)  # Of a run that was killed.
      large = make(pathlib.Path(staging), work)
      check(folder)
    except BaseException:
      with contextlib.suppress(errors.UserError):
        _remove(work)
        if not left:
          _unlink(place / data_set.MARK)
      raise
    _upload(pathlib.Path(staging), place, large)
  _remove(work)


def _remove(folder: epath.Path) -> None:
  with buckets.reaching(folder, "remove"):
    if folder.exists():
      folder.rmtree()


def _marked(place: epath.Path) -> set[str]:
  """Returns the files of which a run that ended half way has left some."""
  file = place / data_set.MARK
  if buckets.size(file) is None:
    return set()
  with buckets.open_file(file) as f:
    return set(f.read().decode("utf-8", "replace").splitlines())


def _mark(place: epath.Path, names: Iterable[str]) -> None:
  with buckets.reaching(place, "write"):
    (place / data_set.MARK).write_text("\n".join(sorted(names)))


def _unlink(file: epath.Path) -> None:
  with buckets.reaching(file, "remove"):
    file.unlink(missing_ok=True)


def _upload(
    source: pathlib.Path, place: epath.Path, there: Sequence[str] = ()
) -> None:
  """Copies a data set; of the files that are `there` already, moves them."""
  there = {os.path.basename(path): path for path in there}
  new = manifest_lib.Manifest.read(source).files
  old = _marked(place) | _listed(place)
  _mark(place, old.union(new))
  # First, so that nobody takes new files for those of the old manifest.
  _unlink(place / manifest_lib.FILE)
  for name in sorted(old.difference(new)):
    if manifest_lib.is_inside(name):
      _unlink(place / name)
  size = sum(i.bytes for name, i in new.items() if name not in there)
  _LOG.info("Copying to %s, %.1f MB", place, size / 1e6)
  for name in new:
    if name in there:
      with buckets.reaching(place / name, "write"):
        epath.Path(there[name]).replace(place / name)
    else:
      buckets.upload(source / name, place / name)
  buckets.upload(source / manifest_lib.FILE, place / manifest_lib.FILE)
  _unlink(place / data_set.MARK)


def _listed(place: epath.Path) -> set[str]:
  if not manifest_lib.exists(place):
    return set()
  try:
    return set(manifest_lib.Manifest.read(place).files)
  except errors.UserError as e:
    _LOG.warning("%s Files of it may stay.", e)
    return set()
