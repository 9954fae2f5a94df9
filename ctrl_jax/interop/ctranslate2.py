"""Export for CTranslate2, which runs on CPUs with 8-bit weights.

CTranslate2 has no loader for CTRL, but its decoder has every part that CTRL
needs: pre-norm, ReLU, scaled embeddings, a table of positions, a tied head with
bias.

  pip install ctranslate2
  python -m ctrl_jax.convert --model=WORKDIR --to=FOLDER --format=ctranslate2

Generate with `ctranslate2.Generator(FOLDER).generate_batch([pieces])`, pieces
as `tokenizer.pieces` gives them, the words of the control code in front.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ctrl_jax import errors
from ctrl_jax.interop import assemble, layouts
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig

QUANTIZATIONS = ("float32", "int8", "float16", "bfloat16", "int8_float32")


def write(
    folder,
    config: TransformerConfig,
    params: Any,
    tokens: Sequence[str],
    *,
    end: str | None,
    unknown: str | None,
    quantization: str = "int8",
) -> None:
  """Writes `model.bin`, `config.json` and `vocabulary.json` into `folder`.

  Args:
    folder: where to; exists.
    config: the model's.
    params: its parameters, float32.
    tokens: the vocabulary by id.
    end: the token that ends a text; None for none.
    unknown: the unknown token; None for none.
    quantization: of the weights; see `QUANTIZATIONS`.

  Raises:
    errors.UserError: ctranslate2 is not installed, the model is neither CTRL
      nor GPT-2, the vocabulary does not fit, or a parameter is not finite.
  """
  try:
    from ctranslate2.specs import common_spec, transformer_spec
  except ImportError as e:
    raise errors.UserError(
        "This export needs CTranslate2: pip install ctranslate2."
    ) from e
  if layouts.kind(config) == "llama":
    raise errors.UserError(
        "The export for CTranslate2 takes CTRL and GPT-2; of a Llama, export a"
        " Hugging Face folder and run ct2-transformers-converter on it."
    )
  if quantization not in QUANTIZATIONS:
    raise errors.UserError(
        f"quantization={quantization!r} is unknown."
        f" {errors.nearest(quantization, QUANTIZATIONS)}"
    )
  if len(set(tokens)) != config.vocab_size:
    raise errors.UserError(
        f"The tokenizer has {len(set(tokens))} different tokens, the model"
        f" {config.vocab_size}: CTranslate2 needs one for each id."
    )
  is_ctrl = layouts.kind(config) == "ctrl"
  activation = common_spec.Activation
  spec = transformer_spec.TransformerDecoderModelSpec.from_config(
      config.num_layers,
      config.num_heads,
      pre_norm=True,
      activation=activation.RELU if is_ctrl else activation.GELUTanh,
  )
  # A copy: quantizing works in place.
  leaves = {k: np.array(x) for k, x in assemble.flat(params).items()}
  bad = [k for k, x in leaves.items() if not assemble.is_finite(x)]
  if bad:
    raise errors.UserError(
        f"The model has values that are not finite in {', '.join(bad[:3])}:"
        " export an earlier checkpoint."
    )
  _fill(spec.decoder, config, leaves)
  spec.register_vocabulary(list(tokens))
  spec.config.unk_token = unknown if unknown is not None else tokens[0]
  spec.config.eos_token = end if end is not None else spec.config.unk_token
  spec.config.bos_token = spec.config.eos_token
  spec.config.layer_norm_epsilon = config.layer_norm_epsilon
  spec.validate()
  if quantization != "float32":
    spec.optimize(quantization=quantization)
  with errors.naming(folder):
    spec.save(str(pathlib.Path(folder)))


def _fill(decoder, config, leaves) -> None:
  """Hands the parameters to CTranslate2's specification."""

  def linear(spec, names, i):
    parts = [leaves[f"layers/{n}/kernel"][i].T for n in names]
    spec.weight = np.ascontiguousarray(np.concatenate(parts))
    spec.bias = np.concatenate([leaves[f"layers/{n}/bias"][i] for n in names])

  def norm(spec, name, i=None):
    scale, bias = leaves[f"{name}/scale"], leaves[f"{name}/bias"]
    spec.gamma, spec.beta = (scale, bias) if i is None else (scale[i], bias[i])

  table = leaves["embedding/table"][: config.vocab_size]
  decoder.scale_embeddings = config.scale_embedding
  decoder.embeddings.weight = table
  decoder.position_encodings.encodings = (
      transformer.sinusoidal_positions(config.max_length, config.d_model)
      if config.positions == "sinusoidal"
      else leaves["positions/table"]
  )
  norm(decoder.layer_norm, "final_norm")
  decoder.projection.weight = table if config.tied_head else (
      leaves["head/table"][: config.vocab_size]
  )
  if config.head_bias:
    decoder.projection.bias = leaves["head/bias"][: config.vocab_size]
  for i, layer in enumerate(decoder.layer):
    norm(layer.self_attention.layer_norm, "layers/norm1", i)
    linear(layer.self_attention.linear[0], ("query", "key", "value"), i)
    linear(layer.self_attention.linear[1], ("output",), i)
    norm(layer.ffn.layer_norm, "layers/norm2", i)
    linear(layer.ffn.linear_0, ("up",), i)
    linear(layer.ffn.linear_1, ("down",), i)
