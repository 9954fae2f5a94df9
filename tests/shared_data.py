"""Where the real data lies that some tests read, and skip without."""

import os
import pathlib

import pytest

_BESIDE = pathlib.Path(__file__).parents[2] / "shared" / "data"
FOLDER = pathlib.Path(os.environ.get("CTRL_JAX_DATA") or _BESIDE)


def path(name: str) -> pathlib.Path:
  """Returns FOLDER/name; skips the test when it is not there."""
  found = FOLDER / name
  if not found.exists():
    pytest.skip(f"needs {name} of the data that $CTRL_JAX_DATA names")
  return found
