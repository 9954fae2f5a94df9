"""Models as Hugging Face keeps them: `config.json` and `model.safetensors`.

`ctrl_jax.json` beside them keeps what that layout has no place for: the
control codes' shares of the training data and the window trained on.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from ctrl_jax import errors
from ctrl_jax.interop import layouts
from ctrl_jax.models import transformer
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
  leaves = {path: np.asarray(x) for path, x in _flat(params).items()}
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
  """Fills our tree tensor by tensor, so that memory holds it once."""
  leaves = {
      path: np.empty(x.shape, np.float32)
      for path, x in _flat(_abstract(config)).items()
  }
  stored = _stored_names(config, f)
  wanted = {t.name: t for t in layouts.tensors(config)}
  missing = sorted(wanted.keys() - stored.keys())
  surplus = sorted(stored[name] for name in stored.keys() - wanted.keys())
  if missing or surplus:
    raise errors.UserError(
        f"{where} does not fit its {CONFIG_FILE}."
        + _listing("Missing", missing) + _listing("Not expected", surplus)
    )
  misshapen, damaged = [], []
  for name, tensor in wanted.items():
    targets = [
        leaves[path] if tensor.layer is None else leaves[path][tensor.layer]
        for path in tensor.leaves
    ]
    *shape, width = targets[0].shape
    shape = (*shape, width * len(targets))
    found = tuple(f.get_slice(stored[name]).get_shape())
    if found != (shape[::-1] if tensor.transpose else shape):
      misshapen.append(f"{name} {list(found)}")
      continue
    x = f.get_tensor(stored[name])
    if not jnp.issubdtype(x.dtype, jnp.floating):  # Quantised.
      misshapen.append(f"{name} {x.dtype}")
      continue
    x = x.astype(np.float32)
    if not np.isfinite(x).all():
      damaged.append(name)
    x = x.T if tensor.transpose else x
    for target, part in zip(targets, np.split(x, len(targets), axis=-1)):
      target[...] = part
  if misshapen or damaged:
    raise errors.UserError(
        f"{where} cannot be used."
        + _listing("Of another shape or type", misshapen)
        + _listing("Not finite", damaged)
    )
  tree = {}
  for path, x in leaves.items():
    *parents, leaf = path.split("/")
    node = tree
    for name in parents:
      node = node.setdefault(name, {})
    node[leaf] = x
  return tree


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


def _listing(title: str, names: list[str]) -> str:
  if not names:
    return ""
  more = f" and {len(names) - 8} more" if len(names) > 8 else ""
  return f" {title}: {', '.join(names[:8])}{more}."


def _abstract(config: TransformerConfig) -> Any:
  key = jax.random.key(0)
  return jax.eval_shape(lambda k: transformer.init(config, k), key)


def _flat(tree: Any) -> dict[str, Any]:
  """Leaves by path, `layers/up/kernel`."""
  return {
      "/".join(str(key.key) for key in path): leaf
      for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }


def _write_json(file: pathlib.Path, content: Mapping[str, Any]) -> None:
  text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
  file.write_text(text, encoding="utf-8")
