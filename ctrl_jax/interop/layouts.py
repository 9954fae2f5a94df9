"""Names and shapes of Hugging Face's CTRL, GPT-2 and Llama, beside ours.

Each layout is one list: a tensor there is one or more leaves here, joined
along the last axis (GPT-2 keeps query, key and value in one), transposed where
PyTorch's `Linear` keeps [out, in]. The same list exports and imports.

Llama's is in `llama_layout`.

Source: transformers 5.24, models/ctrl and models/gpt2.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ctrl_jax import errors
from ctrl_jax.interop import llama_layout
from ctrl_jax.interop.tensor import Tensor
from ctrl_jax.models.config import TransformerConfig

_CTRL_LINEAR = {
    "multi_head_attention.Wq": "query",
    "multi_head_attention.Wk": "key",
    "multi_head_attention.Wv": "value",
    "multi_head_attention.dense": "output",
    "ffn.0": "up",
    "ffn.2": "down",
}
_GPT2_LINEAR = {
    "attn.c_attn": ("query", "key", "value"),
    "attn.c_proj": ("output",),
    "mlp.c_fc": ("up",),
    "mlp.c_proj": ("down",),
}

_PLAIN = dict(residual="raw", norm="layer", biases=True)
# What makes a configuration one of the three; all else is size.
_VARIANTS = {
    "ctrl": _PLAIN | dict(
        positions="sinusoidal", activation="relu", scale_embedding=True,
        head_bias=True, tied_head=True,
    ),
    "gpt2": _PLAIN | dict(
        positions="learned", activation="gelu_tanh", scale_embedding=False,
        head_bias=False,
    ),
    "llama": llama_layout.VARIANT,
}


class Names(NamedTuple):
  """What a kind's files call things.

  Attributes:
    title: the kind's name for people.
    prefix: in front of every tensor but the head's.
    table: the embedding.
    blocks: the layers.
    num_layers: their number, in `config.json`.
    architecture: transformers' class.
  """

  title: str
  prefix: str
  table: str
  blocks: str
  num_layers: str
  architecture: str


NAMES = {
    "ctrl": Names("CTRL", "transformer.", "w", "h", "n_layer",
                  "CTRLLMHeadModel"),
    "gpt2": Names("GPT-2", "transformer.", "wte", "h", "n_layer",
                  "GPT2LMHeadModel"),
    "llama": Names("Llama", "model.", "embed_tokens", "layers",
                   "num_hidden_layers", "LlamaForCausalLM"),
}
# transformers' CTRL has this epsilon fixed in its blocks.
_CTRL_EPSILON = 1e-6


def kind(config: TransformerConfig) -> str:
  """Returns "ctrl", "gpt2" or "llama".

  Raises:
    errors.UserError: the configuration is none, and in what it differs.
  """
  differences = {}
  for name, variant in _VARIANTS.items():
    differences[name] = [
        f"model.{k}={getattr(config, k)!r} (needs {v!r})"
        for k, v in variant.items() if getattr(config, k) != v
    ]
  epsilon = config.layer_norm_epsilon
  if epsilon != _CTRL_EPSILON:
    differences["ctrl"].append(
        f"model.layer_norm_epsilon={epsilon} (needs {_CTRL_EPSILON})"
    )
  if config.kv_heads != config.num_heads:
    for name in ("ctrl", "gpt2"):
      differences[name].append(
          f"model.num_kv_heads={config.num_kv_heads} (needs 0)"
      )
  nearest = min(differences, key=lambda name: len(differences[name]))
  if differences[nearest]:
    raise errors.UserError(
        "Hugging Face has no layout for this model: it is none of CTRL, GPT-2"
        f" and Llama. Nearest is {nearest}, but for"
        f" {', '.join(differences[nearest])}."
    )
  return nearest


def tensors(config: TransformerConfig) -> list[Tensor]:
  """Returns what a folder of this model holds, in order."""
  name = kind(config)
  if name == "llama":
    return llama_layout.tensors(config, llama_layout.HUGGING_FACE)
  if name == "ctrl":
    return _ctrl(config.num_layers)
  return _gpt2(config.num_layers, config.tied_head)


def _norm(name: str, leaf: str, layer: int | None = None) -> list[Tensor]:
  return [
      Tensor(f"{name}.weight", (f"{leaf}/scale",), layer),
      Tensor(f"{name}.bias", (f"{leaf}/bias",), layer),
  ]


def _ctrl(num_layers: int) -> list[Tensor]:
  found = [Tensor("transformer.w.weight", ("embedding/table",))]
  for i in range(num_layers):
    block = f"transformer.h.{i}"
    for name, ours in _CTRL_LINEAR.items():
      kernel, bias = f"layers/{ours}/kernel", f"layers/{ours}/bias"
      found += [
          Tensor(f"{block}.{name}.weight", (kernel,), i, transpose=True),
          Tensor(f"{block}.{name}.bias", (bias,), i),
      ]
    found += _norm(f"{block}.layernorm1", "layers/norm1", i)
    found += _norm(f"{block}.layernorm2", "layers/norm2", i)
  found += _norm("transformer.layernorm", "final_norm")
  return [*found, Tensor("lm_head.bias", ("head/bias",))]


def _gpt2(num_layers: int, tied_head: bool) -> list[Tensor]:
  found = [
      Tensor("transformer.wte.weight", ("embedding/table",)),
      Tensor("transformer.wpe.weight", ("positions/table",)),
  ]
  for i in range(num_layers):
    block = f"transformer.h.{i}"
    for name, ours in _GPT2_LINEAR.items():
      kernels = tuple(f"layers/{x}/kernel" for x in ours)
      biases = tuple(f"layers/{x}/bias" for x in ours)
      found += [  # Conv1D keeps [in, out], as we do.
          Tensor(f"{block}.{name}.weight", kernels, i),
          Tensor(f"{block}.{name}.bias", biases, i),
      ]
    found += _norm(f"{block}.ln_1", "layers/norm1", i)
    found += _norm(f"{block}.ln_2", "layers/norm2", i)
  found += _norm("transformer.ln_f", "final_norm")
  return found if tied_head else [
      *found, Tensor("lm_head.weight", ("head/table",))
  ]


def tensorflow_ctrl(num_layers: int) -> list[Tensor]:
  """What a TensorFlow checkpoint of the original CTRL holds, slots apart.

  Keras numbers what it makes, the first without a number; its kernels are
  [in, out], as ours are. Source: salesforce/ctrl transformer.py under
  TensorFlow 1.14.
  """

  def numbered(name: str, n: int) -> str:
    return f"{name}_{n}" if n else name

  found = [Tensor("w", ("embedding/table",)), Tensor("b", ("head/bias",))]
  linear = ("query", "key", "value", "output", "up", "down")
  for i in range(num_layers):
    block = f"encoder/{numbered('encoder_layer', i)}"
    for j, ours in enumerate(linear):
      group = "multi_head_attention" if j < 4 else "sequential"
      name = f"{block}/{numbered(group, i)}/{numbered('dense', 6 * i + j)}"
      found += [
          Tensor(f"{name}/{leaf}", (f"layers/{ours}/{leaf}",), i)
          for leaf in ("kernel", "bias")
      ]
    for j in range(2):
      name = f"{block}/{numbered('layer_normalization', 2 * i + j)}"
      found += _keras_norm(name, f"layers/norm{j + 1}", i)
  last = numbered("layer_normalization", 2 * num_layers)
  return found + _keras_norm(f"encoder/{last}", "final_norm", None)


def _keras_norm(name: str, leaf: str, layer: int | None) -> list[Tensor]:
  return [
      Tensor(f"{name}/gamma", (f"{leaf}/scale",), layer),
      Tensor(f"{name}/beta", (f"{leaf}/bias",), layer),
  ]


def to_json(
    config: TransformerConfig,
    end_id: int | None,
    dtype: str = "float32",
    begin_id: int | None = None,
) -> dict[str, Any]:
  """Returns the content of `config.json`.

  Args:
    config: of a model that is CTRL, GPT-2 or Llama.
    end_id: the token that ends a document, None where there is none.
    dtype: of the weights beside it.
    begin_id: the token that begins every text, None where there is none.
  """
  name = kind(config)
  content = dict(
      architectures=[NAMES[name].architecture],
      model_type=name,
      vocab_size=config.vocab_size,
      bos_token_id=begin_id,
      eos_token_id=end_id,
      torch_dtype=dtype,
  )
  if name == "llama":
    return content | llama_layout.to_json(config)
  content |= dict(
      n_positions=config.max_length,
      n_embd=config.d_model,
      n_layer=config.num_layers,
      n_head=config.num_heads,
      layer_norm_epsilon=config.layer_norm_epsilon,
      resid_pdrop=config.dropout,
      embd_pdrop=config.dropout,
      initializer_range=config.embedding_init,
      tie_word_embeddings=config.tied_head,
  )
  if name == "ctrl":
    return content | dict(dff=config.d_ff)
  return content | dict(
      n_inner=config.d_ff, activation_function="gelu_new", attn_pdrop=0.0
  )


def from_json(content: Mapping[str, Any], where: str) -> TransformerConfig:
  """Returns the configuration that a `config.json` describes.

  Keys that do not bear on the mathematics are not read.

  Args:
    content: the file's.
    where: its name, for messages.

  Raises:
    errors.UserError: another model type, a missing size, or a variant that this
      model cannot compute.
  """
  name = content.get("model_type")
  if not isinstance(name, str) or name not in _VARIANTS:
    raise errors.UserError(
        f"{where}: model_type is {name!r}; this program reads 'ctrl', 'gpt2'"
        " and 'llama'."
    )
  if name == "llama":
    return llama_layout.from_json(content, where)
  tied = content.get("tie_word_embeddings", True)
  if tied is not True and (name == "ctrl" or tied is not False):
    raise errors.UserError(
        f"{where}: tie_word_embeddings={tied!r} must be true, or false for a"
        " GPT-2 with a head of its own."
    )
  if "n_positions" not in content:  # GPT-2's first files.
    content = {**content, "n_positions": content.get("n_ctx")}
  sizes = dict(
      vocab_size="vocab_size", d_model="n_embd", num_layers="n_layer",
      num_heads="n_head", max_length="n_positions",
  )
  if name == "ctrl":
    sizes["d_ff"] = "dff"
  missing = [k for k in sizes.values() if not isinstance(content.get(k), int)]
  if missing:
    raise errors.UserError(
        f"{where}: {', '.join(missing)} must be whole numbers."
    )
  fields = {ours: content[theirs] for ours, theirs in sizes.items()}
  if name == "gpt2":
    fields["d_ff"] = content.get("n_inner") or 4 * fields["d_model"]
    fields["tied_head"] = tied
    _check_gpt2(content, where)
    epsilon = content.get("layer_norm_epsilon", 1e-5)
  else:
    epsilon = content.get("layer_norm_epsilon", _CTRL_EPSILON)
    if epsilon != _CTRL_EPSILON:
      raise errors.UserError(
          f"{where}: layer_norm_epsilon={epsilon}; CTRL's is {_CTRL_EPSILON}."
      )
  return TransformerConfig(
      **fields,
      **_VARIANTS[name],
      layer_norm_epsilon=epsilon,
      dropout=content.get("resid_pdrop", 0.1),
      embedding_init=content.get("initializer_range", 0.02),
  )


def _check_gpt2(content: Mapping[str, Any], where: str) -> None:
  allowed = dict(
      activation_function=("gelu_new", "gelu_pytorch_tanh"),
      scale_attn_weights=(True,),
      scale_attn_by_inverse_layer_idx=(False,),
      add_cross_attention=(False,),
  )
  for key, values in allowed.items():
    value = content.get(key, values[0])
    if value not in values:
      raise errors.UserError(
          f"{where}: {key}={value!r} is a variant of GPT-2 that this model does"
          f" not compute (needs {values[0]!r})."
      )
