"""Configurations by the name of their file, as after --config."""

import importlib.util
import pathlib

import ml_collections

from ctrl_jax import errors
from ctrl_jax.data import files


def find(name: str) -> tuple[pathlib.Path, str]:
  """Returns the file that is there, and the argument; see `load`."""
  file, _, argument = name.partition(":")
  path = pathlib.Path(files.expand(file))
  if not path.is_file():
    raise errors.UserError(f"There is no configuration {str(path)!r}.")
  return path, argument


def load(name: str) -> ml_collections.ConfigDict:
  """Returns what a configuration's file makes.

  Args:
    name: `FILE.py` or `FILE.py:ARGUMENT`, as after --config.

  Raises:
    errors.UserError: there is no such file.
  """
  path, argument = find(name)
  spec = importlib.util.spec_from_file_location(path.stem, path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module.get_config(*([argument] if argument else []))
