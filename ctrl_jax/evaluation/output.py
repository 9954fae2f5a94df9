"""Result files that appear complete or not at all."""

import json
import os
import pathlib
from typing import Any

from ctrl_jax import errors
from ctrl_jax.data import replace


def write_bytes(file, content: bytes) -> None:
  """Writes a file beside its place, then renames it; makes the folder.

  Raises:
    errors.UserError: it is in a bucket.
  """
  replace.check_is_local(file)
  file = pathlib.Path(file)
  file.parent.mkdir(parents=True, exist_ok=True)
  partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
  try:
    with errors.naming(file):
      partial.write_bytes(content)
    partial.replace(file)
  finally:
    partial.unlink(missing_ok=True)


def write_json(file, content: Any) -> None:
  """Writes JSON, see `write_bytes`. NaN, which JSON has not, is refused."""
  text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
  write_bytes(file, (text + "\n").encode("utf-8"))
