"""A part of a model in a folder of its own: JSON beside its parameters.

What heads and CVAEs have in common on disk: `NAME.json` says what it is, its
parameters lie in `NAME.safetensors`, by path.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
from flax import traverse_util
from safetensors import numpy as safetensors_numpy

from ctrl_jax import errors


def write(folder, name: str, content: Mapping[str, Any], params: Any) -> None:
  """Writes a part into a folder that exists.

  Args:
    folder: where to.
    name: of both files.
    content: JSON types.
    params: nested dicts of arrays.

  Raises:
    OSError: the folder cannot be written.
  """
  folder = pathlib.Path(folder)
  flat = traverse_util.flatten_dict(params, sep="/")
  # Not `save_file`: its errors are no OSError, and its file is private.
  weights = safetensors_numpy.save(
      {k: np.asarray(v, order="C") for k, v in flat.items()}
  )
  with errors.naming(folder):
    (folder / f"{name}.safetensors").write_bytes(weights)
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    (folder / f"{name}.json").write_text(text, encoding="utf-8")


def read_params(folder, name: str) -> Any:
  """Returns a part's parameters, nested dicts of NumPy arrays.

  Raises:
    errors.UserError: the file is missing or damaged.
  """
  file = pathlib.Path(folder) / f"{name}.safetensors"
  if not file.is_file():
    raise errors.UserError(f"No file {str(file)!r}: copy it there.")
  try:
    flat = safetensors_numpy.load_file(file)
  except (safetensors.SafetensorError, OSError) as e:
    raise errors.UserError(
        f"{str(file)!r} is damaged ({e}): copy it again."
    ) from e
  for name in flat:
    if any(other.startswith(f"{name}/") for other in flat):
      raise errors.UserError(
          f"{str(file)!r} is damaged ({name!r} is both a tensor and a group of"
          " them): copy it again."
      )
  return traverse_util.unflatten_dict(flat, sep="/")
