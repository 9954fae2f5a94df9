"""Models in a bucket, `gs://bucket/folder`: what of them is needed, fetched."""

import atexit
import fnmatch
import logging
import pathlib
import shutil
import tempfile

from etils import epath

from ctrl_jax import errors
from ctrl_jax.data import buckets
from ctrl_jax.interop import hub

_LOG = logging.getLogger(__name__)
# Besides a Hugging Face folder's files, a TensorFlow checkpoint's.
_WANTED = (*hub.WANTED, "checkpoint", "*.index", "*.data-*")
_CHECKPOINTS = "checkpoints"


def fetch(path: str, names: tuple[str, ...] | None = None) -> pathlib.Path:
  """Copies a model into a temporary folder, removed when the program ends.

  Of a workdir the newest checkpoint comes along, of a folder the files that
  `ctrl_jax.load` reads.

  Args:
    path: a folder, or the prefix of a TensorFlow checkpoint.
    names: patterns of the files to copy; None for all that are needed.

  Returns:
    The copy of what `path` names.

  Raises:
    errors.UserError: there is nothing, or it cannot be read.
  """
  local = pathlib.Path(tempfile.mkdtemp(prefix="ctrl_jax-"))
  atexit.register(shutil.rmtree, local, ignore_errors=True)
  with buckets.reaching(path):
    place = epath.Path(path)
    if place.is_dir():
      found, result = _of_folder(place, names or _WANTED), local
    else:
      found, result = _of_prefix(place), local / place.name
  _copy(found, local)
  if not found:
    raise errors.UserError(f"There is no model in {path!r}: check the path.")
  return result


def _of_folder(folder, wanted) -> list[tuple[epath.Path, str]]:
  """Returns (file, its place in the copy) of what is needed of a folder."""
  found = []
  for item in folder.iterdir():
    if item.name == "tokenizer" and item.is_dir():
      found += _tree(item, item.name)
    elif item.name == _CHECKPOINTS and item.is_dir():
      steps = [int(p.name) for p in item.iterdir() if p.name.isdigit()]
      if steps:
        newest = str(max(steps))
        found += _tree(item / newest, f"{_CHECKPOINTS}/{newest}")
    elif any(fnmatch.fnmatchcase(item.name, pattern) for pattern in wanted):
      found.append((item, item.name))
  return found


def _of_prefix(prefix) -> list[tuple[epath.Path, str]]:
  """Returns the same of a checkpoint's prefix, its tokenizer included."""
  beside = [(p, p.name) for p in prefix.parent.iterdir()]
  if not any(name.startswith(prefix.name + ".") for _, name in beside):
    return []
  return [
      (p, name) for p, name in beside
      if name.startswith(prefix.name + ".") or name in ("codes", "vocab")
  ]


def _tree(folder, name: str) -> list[tuple[epath.Path, str]]:
  found = []
  for item in folder.iterdir():
    inside = f"{name}/{item.name}"
    found += _tree(item, inside) if item.is_dir() else [(item, inside)]
  return found


def _copy(found, local: pathlib.Path) -> None:
  for source, name in found:
    size = buckets.size(source) or 0
    _LOG.info("Fetching %s, %.1f MB", source, size / 1e6)
    buckets.download(source, local / name)
