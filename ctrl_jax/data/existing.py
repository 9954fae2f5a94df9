"""What is there already where a data set is to be made."""

import contextlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping

from etils import epath

from ctrl_jax import config as config_lib
from ctrl_jax import errors
from ctrl_jax.data import bucket_sets, buckets, data_set, files, replace
from ctrl_jax.data import manifest as manifest_lib


def identity(config) -> dict:
  """Returns what decides a data set's content, as JSON gives it back.

  Paths stand there with the values that variables have: other text under the
  same name is another data set. Of the sizes to learn only that of the
  tokenizer's kind stands there.
  """
  data, tokenizer = config.data.to_dict(), _tokenizer(config.tokenizer)
  del data["folder"], data["workers"]
  for name in ("exclude", "tfrecords"):
    data[name] = [_expanded(path) for path in data[name]]
  data["sources"] = [
      dict(s, path=_expanded(s["path"])) if "path" in s else s
      for s in map(dict, data["sources"])
  ]
  tokenizer["path"] = _expanded(tokenizer["path"])
  return json.loads(json.dumps({"data": data, "tokenizer": tokenizer}))


def _tokenizer(fields: Mapping) -> dict:
  """Returns a tokenizer's section as it decides the content.

  Before fastBPE's `num_merges` was a field, its `vocab_size` said that.
  """
  found = dict(fields)
  if found.get("kind") == "fastbpe":
    size = found.pop("vocab_size", None)
    found.setdefault("num_merges", size)
  else:
    found.pop("num_merges", None)
  return found


def _expanded(path):
  """Returns a path, or several, as far as their variables are set."""
  if not isinstance(path, str):
    return [_expanded(p) for p in path]
  try:
    return files.expand(path)
  except errors.UserError:
    return path


def find(
    folder, identity_: Mapping, mend: str
) -> manifest_lib.Manifest | None:
  """Returns the manifest of a data set of this configuration, None if none.

  Args:
    folder: where it would lie, here or in a bucket.
    identity_: of the configuration, from `identity`.
    mend: how to get rid of another data set, for the message.

  Raises:
    errors.UserError: one of another configuration is there, or a damaged one.
  """
  if not manifest_lib.exists(folder):
    return None
  manifest = manifest_lib.Manifest.read(folder)
  # Fields that are younger than the data set had what is now the default.
  had = identity(config_lib.default())
  had["data"] |= manifest.config.get("data", {})
  had["tokenizer"] |= _tokenizer(manifest.config.get("tokenizer", {}))
  changed = [
      f"{section}.{field}"
      for section, fields in identity_.items()
      for field in fields
      if had[section].get(field) != fields[field]
  ]
  if not changed:
    manifest.check_sizes()  # Those in a bucket; a copy may still be whole.
    return manifest_lib.Manifest.load(folder)
  raise errors.UserError(
      f"The data set in {str(folder)!r} was made with another configuration:"
      f" {', '.join(changed)}. Choose another config.data.folder, or {mend}."
  )


def check(folder) -> None:
  """Refuses to replace what is no data set, here or in a bucket.

  Raises:
    errors.UserError: something else is there.
  """
  if buckets.is_remote(str(folder)):
    bucket_sets.check(str(folder))
  else:
    replace.check(folder, data_set.KIND)


def gather(
    folder, make: Callable[[pathlib.Path, epath.Path], list[str]]
) -> None:
  """Makes a data set whose large files other machines write.

  Args:
    folder: where the data set shall lie, here or in a bucket.
    make: called with an empty folder on this machine and a path in or beside
      the data set's, which does not exist; writes all but the large files into
      the first, and returns the paths of those, in the second.

  Raises:
    errors.UserError: see `check`; or another process is at it.
  """
  if buckets.is_remote(str(folder)):
    bucket_sets.gather(str(folder), make)
    return
  with replacing(folder) as partial:
    work = _work_of(partial)
    try:
      for file in make(partial, epath.Path(work)):
        os.rename(file, partial / os.path.basename(file))
    finally:
      shutil.rmtree(work, ignore_errors=True)


def _work_of(partial: pathlib.Path) -> pathlib.Path:
  """Returns where other machines write what comes into `partial`."""
  return partial.with_name(f"{partial.name}.work")


@contextlib.contextmanager
def replacing(folder) -> Iterator[pathlib.Path]:
  """Gives a new folder, which becomes the data set at the end of the block.

  Args:
    folder: where the data set shall lie, here or in a bucket.

  Raises:
    errors.UserError: see `check`; or another process is at it.
  """
  if buckets.is_remote(str(folder)):
    making = bucket_sets.replacing(str(folder))
  else:
    making = replace.replacing(folder, data_set.KIND)
  with making as partial:
    # Of a `gather` that was killed.
    shutil.rmtree(_work_of(partial), ignore_errors=True)
    yield partial
