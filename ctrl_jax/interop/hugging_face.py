"""Models as Hugging Face keeps them: `config.json` and `model.safetensors`.

`ctrl_jax.json` beside them keeps what that layout has no place for: the
control codes' shares of the training data and the window trained on.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ctrl_jax import errors
from ctrl_jax.interop import assemble, layouts
from ctrl_jax.models.config import TransformerConfig

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
EXTRA_FILE = "ctrl_jax.json"

# Causal masks that old versions of GPT-2 saved; `attn.c_attn.bias` is none.
_BUFFERS = (".attn.bias", ".attn.masked_bias")


def write(
    folder,
    config: TransformerConfig,
    params: Any,
    *,
    end_id: int | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
  """Writes the model's three files into `folder`, which exists.

  Rows of the table that are padding are left out.

  Args:
    folder: where to.
    config: the model's.
    params: its parameters, float32.
    end_id: the token that ends a document.
    extra: content of `ctrl_jax.json`.

  Raises:
    errors.UserError: a model that is neither CTRL nor GPT-2.
  """
  folder = pathlib.Path(folder)
  leaves = {path: np.asarray(x) for path, x in assemble.flat(params).items()}
  for path in ("embedding/table", "head/bias"):
    if path in leaves:
      leaves[path] = leaves[path][: config.vocab_size]
  found = {}
  for tensor in layouts.tensors(config):
    parts = [leaves[path] for path in tensor.leaves]
    if tensor.layer is not None:
      parts = [part[tensor.layer] for part in parts]
    x = np.concatenate(parts, axis=-1)
    found[tensor.name] = np.ascontiguousarray(x.T if tensor.transpose else x)
  _write_json(folder / CONFIG_FILE, layouts.to_json(config, end_id))
  _write_json(folder / EXTRA_FILE, dict(extra or {}))
  try:
    # transformers insists on "format".
    safetensors.numpy.save_file(
        found, folder / WEIGHTS_FILE, metadata={"format": "pt"}
    )
  except safetensors.SafetensorError as e:  # A full disk comes as this, too.
    raise errors.UserError(
        f"Could not write {str(folder / WEIGHTS_FILE)!r}: {e}."
    ) from e


def read(folder) -> tuple[TransformerConfig, dict, dict[str, Any]]:
  """Reads such a folder, ours or one that transformers wrote.

  Returns:
    The configuration, the parameters (NumPy, float32; half precision is
    widened) and the content of `ctrl_jax.json`, {} where there is none.

  Raises:
    errors.UserError: a file that is missing or damaged, a model this program
      does not have, or tensors that are missing, unknown, of another shape or
      not finite.
  """
  folder = pathlib.Path(folder)
  config_file = folder / CONFIG_FILE
  config = layouts.from_json(read_json(config_file), str(config_file))
  extra_file = folder / EXTRA_FILE
  extra = read_json(extra_file) if extra_file.exists() else {}
  weights_file = folder / WEIGHTS_FILE
  if not weights_file.is_file():
    raise errors.UserError(
        f"{str(folder)!r} has no {WEIGHTS_FILE} (one file; PyTorch's .bin and"
        " models in several files are not read)."
    )
  try:
    with safetensors.safe_open(weights_file, framework="np") as f:
      return config, _read_params(config, f, str(weights_file)), extra
  except safetensors.SafetensorError as e:
    raise errors.UserError(
        f"{weights_file} is damaged or not a safetensors file ({e}). Get it"
        " again."
    ) from e


def read_json(file: pathlib.Path) -> dict[str, Any]:
  """Reads a JSON object.

  Raises:
    errors.UserError: the file is missing or holds something else.
  """
  try:
    content = json.loads(file.read_text(encoding="utf-8"))
  except FileNotFoundError as e:
    raise errors.UserError(f"No file {str(file)!r}.") from e
  except (ValueError, RecursionError) as e:
    raise errors.UserError(
        f"{file} is not JSON: {e}. Restore it from a copy."
    ) from e
  if not isinstance(content, dict):
    raise errors.UserError(f"{file} holds no JSON object.")
  return content


def _read_params(config: TransformerConfig, f, where: str) -> dict:
  stored = _stored_names(config, f)
  # First, or an absurd number would be listed name by name.
  num_layers = len({name.split(".")[2] for name in stored
                    if name.startswith("transformer.h.")})
  if num_layers < config.num_layers:
    raise errors.UserError(
        f"{where} has {num_layers} layers, its {CONFIG_FILE} says n_layer="
        f"{config.num_layers}."
    )
  return assemble.assemble(
      config,
      layouts.tensors(config),
      {name: f.get_slice(key).get_shape() for name, key in stored.items()},
      lambda name: f.get_tensor(stored[name]),
      where,
  )


def _stored_names(config: TransformerConfig, f) -> dict[str, str]:
  """Maps names with the `transformer.` prefix to names in the file.

  Bare models (the hub's `gpt2`) lack the prefix; masks and a head that repeats
  the embedding are left out.
  """
  table = "w" if layouts.kind(config) == "ctrl" else "wte"
  found = {}
  for name in f.keys():  # noqa: SIM118 (not a dict)
    if name.endswith(_BUFFERS):
      continue
    bare = not name.startswith(("transformer.", "lm_head."))
    found["transformer." + name if bare else name] = name
  head = found.get("lm_head.weight")
  embedding = found.get(f"transformer.{table}.weight")
  if head and embedding:
    if not np.array_equal(f.get_tensor(head), f.get_tensor(embedding)):
      raise errors.UserError(
          "lm_head.weight differs from the embedding; only models whose head is"
          " their embedding can be read."
      )
    del found["lm_head.weight"]
  return found


def _write_json(file: pathlib.Path, content: Mapping[str, Any]) -> None:
  text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
  file.write_text(text, encoding="utf-8")
