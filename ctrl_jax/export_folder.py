"""The folder that an export goes to: complete, and nothing else's."""

import pathlib

from ctrl_jax import errors
from ctrl_jax.data import buckets, files, replace
from ctrl_jax.interop import hugging_face


def find(to, model_path, force: bool) -> pathlib.Path:
  """Returns the folder to make, when it can be.

  Args:
    to: where the user wants it.
    model_path: what is to be exported.
    force: whether to replace an earlier export there.

  Raises:
    errors.UserError: it is no folder of this machine, holds the model or
      something else, or an earlier export.
  """
  to = files.expand(str(to))
  folder = replace.resolve(to)
  if folder.exists() and not folder.is_dir():
    raise errors.UserError(f"--to={to!r} is a file: name a folder.")
  check_holds_not(folder, model_path)
  replace.check(folder, _EXPORT)
  if not force and folder.exists() and any(folder.iterdir()):
    raise errors.UserError(
        f"--to={to!r} holds an earlier export: replace it with --force, or name"
        " another folder."
    )
  return folder


def check_holds_not(folder: pathlib.Path, model_path) -> None:
  """Refuses to replace what is still to be read.

  Raises:
    errors.UserError: `folder` holds the model.
  """
  model = files.expand(str(model_path))
  # A model in a bucket is in no folder here.
  if not buckets.is_remote(model) and folder.is_dir() and (
      replace.resolve(model).is_relative_to(folder)
  ):
    raise errors.UserError(
        f"--to={str(folder)!r} holds the model {model!r} itself: name another"
        " folder."
    )


def _is_export(folder: pathlib.Path) -> bool:
  # The extra file is ours alone: other programs write the rest, too.
  names = (hugging_face.EXTRA_FILE, hugging_face.CONFIG_FILE)
  return all((folder / name).is_file() for name in names)


_EXPORT = replace.Kind("export", _is_export, "Name another folder.")


def replacing(folder: pathlib.Path):
  """Gives a folder to write to; `folder` is it, or as before: see `replace`."""
  return replace.replacing(folder, _EXPORT)
