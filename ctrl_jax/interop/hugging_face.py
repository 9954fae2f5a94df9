"""Models as Hugging Face keeps them: `config.json` and safetensors.

`ctrl_jax.json` beside them keeps what that layout has no place for: the
control codes' shares of the training data and the window trained on.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ctrl_jax import errors
from ctrl_jax.interop import assemble, layouts, safetensors_folder
from ctrl_jax.models.config import TransformerConfig

CONFIG_FILE = "config.json"
WEIGHTS_FILE = safetensors_folder.FILE
EXTRA_FILE = "ctrl_jax.json"

# Causal masks that old versions of GPT-2 saved (`attn.c_attn.bias` is none),
# and Llama's rotary frequencies.
_BUFFERS = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")


def write(
    folder,
    config: TransformerConfig,
    params: Any,
    *,
    end_id: int | None = None,
    begin_id: int | None = None,
    extra: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    shard_bytes: int | None = None,
) -> None:
  """Writes the model's files into `folder`, which exists.

  Rows of the table that are padding are left out. Memory holds one tensor more
  than `params`; leaves that are read when asked for are asked for one after the
  other.

  Args:
    folder: where to.
    config: the model's.
    params: its parameters, float32, or an `assemble.Leaves` of them.
    end_id: the token that ends a document.
    begin_id: the token that begins every text.
    extra: content of `ctrl_jax.json`.
    dtype: of the file, "float32", "float16" or "bfloat16".
    shard_bytes: size of one file's tensors; None for all in one.

  Raises:
    errors.UserError: a model that is none of CTRL, GPT-2 and Llama, or a value
      that `dtype` cannot hold.
  """
  folder = pathlib.Path(folder)
  leaves = assemble.Tree(params) if isinstance(params, Mapping) else params
  wanted = {tensor.name: tensor for tensor in layouts.tensors(config)}
  rows = {"embedding/table", "head/bias", "head/table"}

  def shape(tensor):
    *first, width = leaves.shapes[tensor.leaves[0]][tensor.layer is not None:]
    if tensor.leaves[0] in rows:
      first, width = (
          (first, config.vocab_size) if not first
          else ([config.vocab_size], width)
      )
    found = [*first, width * len(tensor.leaves)]
    return found[::-1] if tensor.transpose else found

  def get(name):
    tensor = wanted[name]
    parts = leaves.parts(tensor.leaves, tensor.layer)
    if tensor.leaves[0] in rows:
      parts = [part[: config.vocab_size] for part in parts]
    x = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
    return x.T if tensor.transpose else x

  # All layers of a leaf together: it is read once.
  places = {t.leaves: i for i, t in enumerate(reversed(wanted.values()))}
  safetensors_folder.write(
      folder, {name: shape(t) for name, t in wanted.items()}, get,
      order=sorted(wanted, key=lambda name: -places[wanted[name].leaves]),
      dtype=dtype, shard_bytes=shard_bytes,
  )
  _write_json(
      folder / CONFIG_FILE, layouts.to_json(config, end_id, dtype, begin_id)
  )
  generation = dict(do_sample=False)
  if layouts.kind(config) == "ctrl":  # The paper's.
    generation |= dict(repetition_penalty=1.2)
  if begin_id is not None:
    generation |= dict(bos_token_id=begin_id)
  if end_id is not None:
    generation |= dict(eos_token_id=end_id, pad_token_id=end_id)
  _write_json(folder / "generation_config.json", generation)
  write_extra(folder, extra or {})


def write_extra(folder: pathlib.Path, extra: Mapping[str, Any]) -> None:
  """Writes `ctrl_jax.json`, which marks a folder as an export of ours."""
  _write_json(folder / EXTRA_FILE, dict(extra))


def read(folder) -> tuple[TransformerConfig, dict, dict[str, Any]]:
  """Reads such a folder, ours or one that transformers wrote.

  Returns:
    The configuration, the parameters (NumPy, float32; half precision is
    widened) and the content of `ctrl_jax.json`, {} where there is none.

  Raises:
    errors.UserError: see `open_folder`; or tensors that are not finite.
  """
  config, stored, extra = open_folder(folder)
  return config, stored.tree(), extra


def open_folder(
    folder,
) -> tuple[TransformerConfig, assemble.Stored, dict[str, Any]]:
  """Opens such a folder: as `read`, the parameters leaf by leaf.

  Raises:
    errors.UserError: a file that is missing or damaged, a model this program
      does not have, or tensors that are missing, unknown or of another shape.
  """
  folder = pathlib.Path(folder)
  config_file = folder / CONFIG_FILE
  config = layouts.from_json(read_json(config_file), str(config_file))
  extra_file = folder / EXTRA_FILE
  extra = read_json(extra_file) if extra_file.exists() else {}
  reader = safetensors_folder.Reader(folder)
  return config, _open_params(config, reader, str(folder)), extra


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


def _open_params(
    config: TransformerConfig, reader, where: str
) -> assemble.Stored:
  stored = _stored_names(config, reader)
  names = layouts.NAMES[layouts.kind(config)]
  # First, or an absurd number would be listed name by name.
  num_layers = len({name.split(".")[2] for name in stored
                    if name.startswith(f"{names.prefix}{names.blocks}.")})
  if num_layers < config.num_layers:
    raise errors.UserError(
        f"{where} has {num_layers} layers, its {CONFIG_FILE} says"
        f" {names.num_layers}={config.num_layers}."
    )
  return assemble.Stored(
      config,
      layouts.tensors(config),
      {name: reader.shape(key) for name, key in stored.items()},
      lambda name: reader.get(stored[name]),
      where,
  )


def _stored_names(config: TransformerConfig, reader) -> dict[str, str]:
  """Maps names with their prefix (`transformer.`) to names in the files.

  Bare models (the hub's `gpt2`) lack the prefix; masks and a head that repeats
  the embedding are left out.
  """
  names = layouts.NAMES[layouts.kind(config)]
  found = {}
  for name in reader.names:
    if name.endswith(_BUFFERS):
      continue
    full = name.removeprefix("module.")  # Of torch's DataParallel.
    if not full.startswith((names.prefix, "lm_head.")):
      full = names.prefix + full
    if full in found:
      raise errors.UserError(
          f"There are two tensors for {full!r}: {name!r} and {found[full]!r}."
          " Delete one."
      )
    found[full] = name
  head = found.get("lm_head.weight")
  embedding = found.get(f"{names.prefix}{names.table}.weight")
  if head and embedding and config.tied_head:
    if not reader.equal(head, embedding):
      raise errors.UserError(
          "lm_head.weight differs from the embedding, which its configuration"
          " says it is. A GPT-2 or Llama with a head of its own has"
          ' "tie_word_embeddings": false in config.json.'
      )
    del found["lm_head.weight"]
  return found


def _write_json(file: pathlib.Path, content: Mapping[str, Any]) -> None:
  text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
  file.write_text(text, encoding="utf-8")
