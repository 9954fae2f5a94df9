"""Models in a bucket, `gs://bucket/folder`: what of them is needed, fetched.

Reading goes through etils' epath; for gs:// it needs `pip install gcsfs`, for
s3:// s3fs, and credentials where the bucket is not public.
"""

import atexit
import fnmatch
import logging
import pathlib
import shutil
import tempfile

from etils import epath

from ctrl_jax import errors
from ctrl_jax.interop import hub

_LOG = logging.getLogger(__name__)
_CHUNK = 1 << 24
# Besides a Hugging Face folder's files, a TensorFlow checkpoint's.
_WANTED = (*hub.WANTED, "checkpoint", "*.index", "*.data-*")
_CHECKPOINTS = "checkpoints"


def is_remote(path: str) -> bool:
  """Whether `path` is in a bucket.

  Raises:
    errors.UserError: it is an address of another kind, a web page's.
  """
  scheme, mark, _ = path.partition("://")
  if mark and scheme in ("http", "https", "file"):
    raise errors.UserError(
        f"{path!r} is an address, not a model: give a folder, a name on the hub"
        " (`gpt2`), or a bucket's path (gs://...)."
    )
  return bool(mark)


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
  try:
    place = epath.Path(path)
    if place.is_dir():
      found, result = _of_folder(place, names or _WANTED), local
    else:
      found, result = _of_prefix(place), local / place.name
    _copy(found, local)
  except (errors.UserError, MemoryError):
    raise
  except Exception as e:  # Each kind of bucket raises its own.
    reason = " ".join(str(e).split())[:200]
    raise errors.UserError(
        f"Cannot read {path!r} ({type(e).__name__}: {reason}). Check the path"
        " and your credentials; gs:// needs: pip install gcsfs."
    ) from e
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
    size = source.stat().length
    _LOG.info("Fetching %s, %.1f MB", source, size / 1e6)
    target = local / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as f, target.open("wb") as g:
      shutil.copyfileobj(f, g, _CHUNK)
    if target.stat().st_size != size:
      raise errors.UserError(
          f"{source} has {size} bytes, of which {target.stat().st_size} came:"
          " fetch it again."
      )
