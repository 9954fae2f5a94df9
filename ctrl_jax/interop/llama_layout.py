"""Names and shapes of Llama-shaped models beside ours, in several formats.

All formats hold the same tensors, [out, in], under names of their own.

Sources: transformers 5.24, models/llama; gguf 0.19, constants.py.
"""

from collections.abc import Mapping
from typing import Any

from ctrl_jax import errors
from ctrl_jax.interop.tensor import Tensor
from ctrl_jax.models.config import TransformerConfig

# What makes a configuration a Llama; all else is size.
VARIANT = dict(
    positions="rotary", rotary_order="halves", activation="swiglu",
    residual="raw", norm="rms", biases=False, scale_embedding=False,
    head_bias=False,
)
# Our leaf -> the name there; "{}" is the layer.
HUGGING_FACE = {
    "embedding/table": "model.embed_tokens.weight",
    "layers/norm1/scale": "model.layers.{}.input_layernorm.weight",
    "layers/query/kernel": "model.layers.{}.self_attn.q_proj.weight",
    "layers/key/kernel": "model.layers.{}.self_attn.k_proj.weight",
    "layers/value/kernel": "model.layers.{}.self_attn.v_proj.weight",
    "layers/output/kernel": "model.layers.{}.self_attn.o_proj.weight",
    "layers/norm2/scale": "model.layers.{}.post_attention_layernorm.weight",
    "layers/gate/kernel": "model.layers.{}.mlp.gate_proj.weight",
    "layers/up/kernel": "model.layers.{}.mlp.up_proj.weight",
    "layers/down/kernel": "model.layers.{}.mlp.down_proj.weight",
    "final_norm/scale": "model.norm.weight",
    "head/table": "lm_head.weight",
}
GGUF = {
    "embedding/table": "token_embd.weight",
    "layers/norm1/scale": "blk.{}.attn_norm.weight",
    "layers/query/kernel": "blk.{}.attn_q.weight",
    "layers/key/kernel": "blk.{}.attn_k.weight",
    "layers/value/kernel": "blk.{}.attn_v.weight",
    "layers/output/kernel": "blk.{}.attn_output.weight",
    "layers/norm2/scale": "blk.{}.ffn_norm.weight",
    "layers/gate/kernel": "blk.{}.ffn_gate.weight",
    "layers/up/kernel": "blk.{}.ffn_up.weight",
    "layers/down/kernel": "blk.{}.ffn_down.weight",
    "final_norm/scale": "output_norm.weight",
    "head/table": "output.weight",
}


def tensors(
    config: TransformerConfig, names: Mapping[str, str]
) -> list[Tensor]:
  """Returns what a file of this model holds under `names`, in order."""
  found = []
  for leaf, name in names.items():
    if leaf == "head/table" and config.tied_head:
      continue
    transpose = leaf.endswith("kernel")
    if "{}" not in name:
      found.append(Tensor(name, (leaf,), None, transpose))
      continue
    found += [
        Tensor(name.format(i), (leaf,), i, transpose)
        for i in range(config.num_layers)
    ]
  return found


def to_json(config: TransformerConfig) -> dict[str, Any]:
  """Returns what `config.json` says of sizes and variants."""
  return dict(
      hidden_size=config.d_model,
      intermediate_size=config.d_ff,
      num_hidden_layers=config.num_layers,
      num_attention_heads=config.num_heads,
      num_key_value_heads=config.kv_heads,
      head_dim=config.head_size,
      max_position_embeddings=config.max_length,
      rms_norm_eps=config.layer_norm_epsilon,
      rope_theta=config.rotary_theta,
      rope_scaling=None,
      hidden_act="silu",
      attention_bias=False,
      mlp_bias=False,
      attention_dropout=0.0,
      initializer_range=config.embedding_init,
      tie_word_embeddings=config.tied_head,
  )


def from_json(content: Mapping[str, Any], where: str) -> TransformerConfig:
  """Returns the configuration that a Llama's `config.json` describes.

  Args:
    content: the file's.
    where: its name, for messages.

  Raises:
    errors.UserError: a missing size, or a variant that is not computed here.
  """
  sizes = dict(
      vocab_size="vocab_size", d_model="hidden_size", d_ff="intermediate_size",
      num_layers="num_hidden_layers", num_heads="num_attention_heads",
      max_length="max_position_embeddings",
  )
  missing = [k for k in sizes.values() if not isinstance(content.get(k), int)]
  if missing:
    raise errors.UserError(
        f"{where}: {', '.join(missing)} must be whole numbers."
    )
  fields = {ours: content[theirs] for ours, theirs in sizes.items()}
  tied = content.get("tie_word_embeddings", False)
  if not isinstance(tied, bool):
    raise errors.UserError(
        f"{where}: tie_word_embeddings={tied!r} must be true or false."
    )
  config = make_config(
      **fields,
      num_kv_heads=content.get("num_key_value_heads"),
      layer_norm_epsilon=content.get("rms_norm_eps", 1e-6),
      rotary_theta=_theta(content, where),
      embedding_init=content.get("initializer_range", 0.02),
      tied_head=tied,
  )
  _check(content, config, where)
  return config


def make_config(
    *, num_heads: int, num_kv_heads: int | None, **fields
) -> TransformerConfig:
  """Returns a Llama's configuration; no `num_kv_heads` is as many as heads."""
  return TransformerConfig(
      num_heads=num_heads,
      # One way of saying it, so that configurations can be compared.
      num_kv_heads=0 if num_kv_heads in (None, num_heads) else num_kv_heads,
      dropout=0.0,
      **VARIANT,
      **fields,
  )


def _theta(content: Mapping[str, Any], where: str) -> Any:
  """Returns the rotary base; refuses every way of scaling positions.

  transformers 5 keeps base and scaling in `rope_parameters`, earlier ones in
  `rope_theta` and `rope_scaling`.
  """
  theta = content.get("rope_theta", 10000.0)
  for key in ("rope_scaling", "rope_parameters"):
    given = content.get(key)
    if not given and given != 0:
      continue
    given = given if isinstance(given, dict) else {"rope_type": given}
    # Only the newer of the two may leave the kind out.
    plain = "default" if key == "rope_parameters" else None
    variant = given.get("rope_type", given.get("type", plain))
    partial = given.get("partial_rotary_factor", 1.0)
    if variant != "default" or partial != 1.0:
      raise errors.UserError(
          f"{where}: {key}={given} scales rotary positions, which this program"
          " does not compute: use a model without."
      )
    theta = given.get("rope_theta", theta)
  return theta


def _check(
    content: Mapping[str, Any], config: TransformerConfig, where: str
) -> None:
  allowed = dict(
      hidden_act=("silu", "swish"),
      attention_bias=(False,),
      mlp_bias=(False,),
      head_dim=(config.head_size, None),
      pretraining_tp=(1,),
      quantization_config=(None,),
      partial_rotary_factor=(1.0,),
  )
  for key, values in allowed.items():
    value = content.get(key, values[0])
    if value not in values:
      raise errors.UserError(
          f"{where}: {key}={value!r} is a variant of Llama that this model does"
          f" not compute (needs {values[0]!r})."
      )
