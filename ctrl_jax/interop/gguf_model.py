"""Llama-shaped models in GGUF: sizes and parameters.

llama.cpp keeps the rows of queries and keys so that neighbours turn together
("pairs"); here they are put into the order of "halves" that Hugging Face's
models have, so that a GGUF file and its original give the same parameters.
"""

import pathlib
from typing import Any

import numpy as np

from ctrl_jax import errors
from ctrl_jax.interop import assemble, gguf_file, llama_layout
from ctrl_jax.models import rotary
from ctrl_jax.models.config import TransformerConfig

_ARCHITECTURE = "llama"
# Our field -> its key, behind "llama.", and what there must be.
_SIZES = dict(
    d_model="embedding_length", d_ff="feed_forward_length",
    num_layers="block_count", num_heads="attention.head_count",
    max_length="context_length",
)
# Other keys, and the values that change nothing; () for any.
_KNOWN = {
    "vocab_size": (),
    "tensor_data_layout": (),
    "attention.head_count_kv": (),
    "attention.layer_norm_rms_epsilon": (),
    "rope.freq_base": (),
    "rope.scaling.type": ("none",),
    "rope.scaling.factor": (0.0, 1.0),
    "rope.scale_linear": (1.0,),
    "expert_count": (0,),
    "expert_used_count": (0,),
}


def read(path: pathlib.Path) -> tuple[TransformerConfig, dict[str, Any]]:
  """Reads a model.

  Args:
    path: the file.

  Returns:
    The configuration and the parameters: NumPy, float32.

  Raises:
    errors.UserError: a damaged file, another architecture, a variant that is
      not computed here, or tensors that are missing, surplus, of another shape
      or not finite.
  """
  file = gguf_file.read(path)
  config = _config(file)
  heads = {
      llama_layout.GGUF["layers/query/kernel"]: config.num_heads,
      llama_layout.GGUF["layers/key/kernel"]: config.kv_heads,
  }
  turned = {
      name.format(i): n
      for name, n in heads.items() for i in range(config.num_layers)
  }

  def get(name: str) -> np.ndarray:
    x = file.get(name)
    if name in turned:
      x = rotary.halves_from_pairs(x, turned[name])
    return x

  params = assemble.assemble(
      config,
      llama_layout.tensors(config, llama_layout.GGUF),
      {name: file.shape(name) for name in file.tensors},
      get,
      file.where,
  )
  return config, params


def read_config(path: pathlib.Path) -> TransformerConfig:
  """Reads the sizes alone; raises as `read` does."""
  return _config(gguf_file.read(path))


def _config(file: gguf_file.File) -> TransformerConfig:
  architecture = file.fields.get("general.architecture")
  if architecture != _ARCHITECTURE:
    raise errors.UserError(
        f"{file.where} has the architecture {architecture!r}; this program"
        f" reads {_ARCHITECTURE!r}."
    )
  fields = {
      key.removeprefix("llama."): value for key, value in file.fields.items()
      if key.startswith("llama.")
  }
  missing = [
      f"llama.{k}" for k in _SIZES.values() if type(fields.get(k)) is not int
  ]
  if missing:
    raise errors.UserError(
        f"{file.where}: {', '.join(missing)} must be whole numbers."
    )
  table = llama_layout.GGUF["embedding/table"]
  if table not in file.tensors or len(file.shape(table)) != 2:
    raise errors.UserError(f"{file.where} has no matrix {table}.")
  rows = file.shape(table)[0]
  if fields.get("vocab_size", rows) != rows:
    raise errors.UserError(
        f"{file.where}: {table} has {rows} rows, and llama.vocab_size is"
        f" {fields['vocab_size']}: the file is damaged."
    )
  sizes = {ours: fields[key] for ours, key in _SIZES.items()}
  num_layers = len({n.split(".")[1] for n in file.tensors
                    if n.startswith("blk.")})
  # First, or an absurd number would be listed name by name.
  if num_layers != sizes["num_layers"]:
    raise errors.UserError(
        f"{file.where} has {num_layers} layers, and says llama.block_count="
        f"{sizes['num_layers']}."
    )
  config = llama_layout.make_config(
      **sizes,
      vocab_size=rows,
      num_kv_heads=fields.get("attention.head_count_kv"),
      layer_norm_epsilon=fields.get("attention.layer_norm_rms_epsilon", 1e-5),
      rotary_theta=fields.get("rope.freq_base", 10000.0),
      tied_head=llama_layout.GGUF["head/table"] not in file.tensors,
  )
  _check(fields, config, file.where)
  return config


def _check(
    fields: dict[str, Any], config: TransformerConfig, where: str
) -> None:
  """Refuses what the file says of the model and this program does not know."""
  known = _KNOWN | dict.fromkeys(_SIZES.values(), ()) | dict.fromkeys(
      ("rope.dimension_count", "attention.key_length",
       "attention.value_length"),
      (config.head_size,),
  )
  for key, value in fields.items():
    if key not in known or known[key] and value not in known[key]:
      raise errors.UserError(
          f"{where}: llama.{key}={str(value)[:60]} is a variant of Llama that"
          " this program does not compute."
      )
