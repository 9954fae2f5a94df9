"""The auxiliary network of Auxiliary Tuning (arXiv 2006.16823).

A frozen language model and a small network add their logits:

  P(x_t | x_<t; a) = softmax(logits_LM(x_<t) + logits_AUX(x_<t; a))

The auxiliary reads [attribute ; text]: the attribute sees itself, the text all
of the attribute and its own past; the positions of both begin at zero, and two
trained vectors, Z_att and Z_txt, tell them apart. Two kinds:

- "independent": its own embedding, Transformer and output table E_AUX (the
  paper's equation 4);
- "feature": it reads what the frozen model's first L layers make of attribute
  and text, and its output, projected back to the frozen model's width, goes
  through the frozen table (the variant with Proj_LM->AUX and Proj_AUX->LM). So
  the text's features cost nothing, and there is one vocabulary product for the
  sum.

Its output starts at zero: at step 0 the sum is the frozen model exactly.

Letters as in `transformer`; A attribute length, D the frozen model's width, E
the auxiliary's. Attributes are padded on the right to A; texts as they come.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from ctrl_jax import errors
from ctrl_jax.models import masks, stack, transformer
from ctrl_jax.models.block import (
  LayerNorm,
  Linear,
  constrain,
  dropout,
  init_linear,
  linear,
  make_norm,
)
from ctrl_jax.models.config import TransformerConfig

KINDS = ("feature", "independent")
COMBINATIONS = ("sum", "gate")
Params = transformer.Params


class Output(NamedTuple):
  """An auxiliary's share of the logits.

  Attributes:
    hidden: hidden states [B, T, D or E], or logits [B, T, V].
    table: [V, E], what they are multiplied with. None: the frozen model's.
    is_logits: whether `hidden` needs no table.
  """

  hidden: jax.Array
  table: jax.Array | None = None
  is_logits: bool = False


@dataclasses.dataclass(frozen=True)
class AuxiliaryConfig:
  """Sizes and variants of an auxiliary; `config.default()` explains each.

  Raises:
    errors.UserError: an unknown choice, or sizes that do not fit each other.
  """

  base: TransformerConfig
  kind: str = "feature"
  combination: str = "sum"
  attribute_length: int = 16
  reused_layers: int = 2
  d_model: int = 128
  d_ff: int = 512
  num_layers: int = 2
  num_heads: int = 4
  dropout: float = 0.1
  # Z: the attribute is a latent of so many numbers instead of tokens.
  latent_size: int = 0

  def __post_init__(self):
    errors.check_choices(
        "auxiliary", self, kind=KINDS, combination=COMBINATIONS
    )
    if type(self.attribute_length) is not int or self.attribute_length < 1:
      raise errors.UserError(
          f"auxiliary.attribute_length={self.attribute_length!r} must be a"
          " whole number, at least 1."
      )
    if self.attribute_length > self.base.max_length:
      raise errors.UserError(
          f"auxiliary.attribute_length={self.attribute_length} is more than"
          f" the frozen model's {self.base.max_length} positions."
      )
    if self.latent_size and self.attribute_length != 1:
      raise errors.UserError(
          "An auxiliary that reads a latent has auxiliary.attribute_length=1,"
          f" not {self.attribute_length}."
      )
    if self.kind == "feature" and not (
        0 <= self.reused_layers <= self.base.num_layers
    ):
      raise errors.UserError(
          f"auxiliary.reused_layers={self.reused_layers} must be 0 to"
          f" {self.base.num_layers}, the frozen model's layers."
      )
    if self.kind == "independent" and self.combination == "gate":
      raise errors.UserError(
          "auxiliary.combination='gate' mixes hidden states of the frozen"
          " model's width: it needs auxiliary.kind='feature'."
      )
    try:
      _ = self.transformer
    except errors.UserError as e:
      raise errors.UserError(str(e).replace("model.", "auxiliary.")) from e

  @functools.cached_property
  def transformer(self) -> TransformerConfig:
    """The auxiliary's own Transformer: the frozen model's kind of layers."""
    return dataclasses.replace(
        self.base,
        d_model=self.d_model,
        d_ff=self.d_ff,
        num_layers=self.num_layers,
        num_heads=self.num_heads,
        num_kv_heads=0,
        dropout=self.dropout,
        head_bias=False,
        tied_head=True,
    )

  @property
  def taps(self) -> tuple[int, ...]:
    """Depths of the frozen model that the auxiliary reads."""
    return (self.reused_layers,) if self.kind == "feature" else ()

  def init_boxed(self, key: jax.Array) -> Params:
    """Initial parameters; see `init_boxed`."""
    return init_boxed(self, key)

  def output(
      self, params, base_params, ids_BT, taps, attribute_BA,
      attribute_length_B, *, dropout_key=None,
  ) -> Output:
    """The share of the logits of texts; see `hidden_states`."""
    hidden = hidden_states(
        self, params, base_params, ids_BT, taps, attribute_BA,
        attribute_length_B, dropout_key=dropout_key,
    )
    if self.kind == "independent":
      return Output(hidden, params["embedding"]["table"])
    return Output(hidden)

  def shift(self, params, base_hidden, hidden) -> jax.Array:
    """What is added to the frozen model's hidden states; see `shift`."""
    return shift(self, params, base_hidden, hidden)


@dataclasses.dataclass(frozen=True)
class LinenAuxiliary:
  """Any Flax module as an auxiliary.

  Attributes:
    base: the frozen model.
    module: called with (attribute_BA, attribute_length_B, ids_BT), int32; gives
      hidden states [B, T, D] for the frozen table, or logits [B, T, V]. It must
      be causal in the text; for identity at step 0 its output must begin at 0.
    attribute_length: A.
    is_logits: which of the two it gives.
  """

  base: TransformerConfig
  module: nn.Module
  attribute_length: int
  is_logits: bool = False

  taps = ()

  def init_boxed(self, key: jax.Array) -> Params:
    """Initial parameters; in boxes where the module makes them."""
    one = jnp.ones((1, 1), jnp.int32)
    return self.module.init(key, one, one[0], one)["params"]

  def output(
      self, params, base_params, ids_BT, taps, attribute_BA,
      attribute_length_B, *, dropout_key=None,
  ) -> Output:
    """The share of the logits of texts."""
    del base_params, taps
    rngs = None if dropout_key is None else {"dropout": dropout_key}
    hidden = self.module.apply(
        {"params": params}, attribute_BA, attribute_length_B, ids_BT, rngs=rngs
    )
    return Output(hidden, is_logits=self.is_logits)

  def shift(self, params, base_hidden, hidden) -> jax.Array:
    """What is added to the frozen model's hidden states."""
    del params, base_hidden
    return hidden


def init_boxed(config: AuxiliaryConfig, key: jax.Array) -> Params:
  """Initial parameters in boxes that name their logical axes.

  The tree, E = `config.d_model`:

    layers/... [N, ...], final_norm/... [E], segments/{attribute, text} [E]
    input_norm/... [D]                              "feature"
    input [D, E] and output [E, D] with biases      "feature"
    embedding/table [V, E], positions/table [P, E]  "independent"
    gate/...                                        combination "gate"
    latent/kernel [Z, E]                            with a `latent_size`
  """
  keys = jax.random.split(key, 4)
  boxed = transformer.init_boxed(config.transformer, keys[0])
  tree = {name: boxed[name] for name in ("layers", "final_norm")}
  # The marks are as large as what they are added to, a table's rows or what is
  # made of normed states: much smaller ones go unnoticed, and the attribute
  # with them, for most of a short training.
  size = config.base.embedding_init if config.kind == "independent" else 1.0
  tree["segments"] = {
      name: _boxed(size * jax.random.normal(k, (config.d_model,)))
      for name, k in zip(("attribute", "text"), jax.random.split(keys[1]))
  }
  if config.latent_size:
    kernel = jax.random.normal(
        jax.random.fold_in(key, 1), (config.latent_size, config.d_model)
    )
    tree["latent"] = {
        "kernel": _boxed(size * kernel * config.latent_size**-0.5)
    }
  if config.kind == "independent":
    for name in ("embedding", "positions"):
      if name in boxed:
        tree[name] = boxed[name]
    # Zero, so that the logits are; the gradient to these is not.
    tree["final_norm"] = jax.tree.map(jnp.zeros_like, tree["final_norm"])
    return tree
  width = config.base.d_model
  norm = make_norm(config.base, parent=None)
  tree["input_norm"] = norm.init(keys[2], jnp.zeros((1, width)))["params"]
  tree["input"] = init_linear(keys[2], width, config.d_model)
  tree["output"] = jax.tree.map(
      jnp.zeros_like, init_linear(keys[3], config.d_model, width)
  )
  if config.combination == "gate":
    tree["gate"] = _gate(config).init(
        keys[3], *[jnp.zeros((1, width))] * 2
    )["params"]
  return tree


def attribute_inputs(
    config: AuxiliaryConfig,
    params: Params,
    base_params: Params,
    attribute_BA: jax.Array,
) -> jax.Array:
  """What the auxiliary's Transformer reads of attributes, [B, A, E].

  A latent, float32 [B, Z] instead of tokens, is one vector, without a position.
  "feature" runs the frozen model's first layers over them: causally, as it was
  trained, so that padding on the right changes nothing before it.
  """
  positions = jnp.arange(attribute_BA.shape[1])[None]
  if config.latent_size:
    dtype = config.base.compute_dtype
    kernel = params["latent"]["kernel"].astype(dtype)
    x = (attribute_BA.astype(dtype) @ kernel)[:, None]
  elif config.kind == "independent":
    x = transformer.embed(config.transformer, params, attribute_BA, positions)
  else:
    base = config.base
    x = transformer.embed(base, base_params, attribute_BA, positions)
    if config.reused_layers:
      layers = stack.first(
          base_params["layers"], config.reused_layers
      )
      x, _ = stack.apply(base, layers, x, None)
    x = _read(config, params, x)
  return x + params["segments"]["attribute"].astype(x.dtype)[None, None]


def text_inputs(
    config: AuxiliaryConfig,
    params: Params,
    ids_BT: jax.Array,
    positions_BT: jax.Array,
    taps: tuple[jax.Array, ...],
) -> jax.Array:
  """What the auxiliary's Transformer reads of texts, [B, T, E].

  Args:
    config: the auxiliary's.
    params: the auxiliary's.
    ids_BT: int32 token ids.
    positions_BT: int32 positions.
    taps: what the frozen model's stack gave at `config.taps`.
  """
  if config.kind == "independent":
    x = transformer.embed(config.transformer, params, ids_BT, positions_BT)
  else:
    x = _read(config, params, taps[0])
  return x + params["segments"]["text"].astype(x.dtype)[None, None]


def _read(config, params, states):
  """Proj_LM->AUX, of normed states: how large they are, and which dimensions
  stand out, differs by model and depth."""
  norm = make_norm(config.base, parent=None)
  x = norm.apply({"params": params["input_norm"]}, states)
  return linear(x, **params["input"])


def attention_mask(
    attribute_length_B: jax.Array, attribute_size: int, text_mask: jax.Array
) -> jax.Array:
  """Who sees whom in [attribute ; text], bool [B, 1, A+T, A+S].

  Args:
    attribute_length_B: int32 [B], real tokens of each attribute.
    attribute_size: A.
    text_mask: bool, broadcastable to [B, 1, T, S], among the text's tokens.
  """
  batch = attribute_length_B.shape[0]
  text_mask = jnp.broadcast_to(text_mask, (batch, *text_mask.shape[1:]))
  num_queries, num_keys = text_mask.shape[-2:]
  real = jnp.arange(attribute_size)[None] < attribute_length_B[:, None]
  real = real[:, None, None]
  # Padding sees what the attribute's tokens see, and nobody sees padding.
  rows = jnp.broadcast_to(
      real, (batch, 1, attribute_size + num_queries, attribute_size)
  )
  nothing = jnp.zeros((batch, 1, attribute_size, num_keys), bool)
  return jnp.concatenate(
      [rows, jnp.concatenate([nothing, text_mask], axis=2)], axis=3
  )


def project(
    config: AuxiliaryConfig, params: Params, x: jax.Array
) -> jax.Array:
  """Final norm and, for "feature", Proj_AUX->LM: [..., E] -> [..., D or E]."""
  x = transformer.final_norm(config.transformer, params, x)
  return linear(x, **params["output"]) if "output" in params else x


def hidden_states(
    config: AuxiliaryConfig,
    params: Params,
    base_params: Params,
    ids_BT: jax.Array,
    taps: tuple[jax.Array, ...],
    attribute_BA: jax.Array,
    attribute_length_B: jax.Array,
    *,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
  """The auxiliary's hidden states, [B, T, D] ("feature") or [B, T, E].

  Args:
    config: the auxiliary's.
    params: the auxiliary's.
    base_params: the frozen model's; gets no gradient from a caller that
      differentiates `params` alone.
    ids_BT: int32 token ids, padded on the right if at all.
    taps: what the frozen model's stack gave at `config.taps`.
    attribute_BA: int32 token ids, padded on the right; or a latent.
    attribute_length_B: int32, 0 for no attribute.
    dropout_key: None for no dropout.
  """
  length = ids_BT.shape[1]
  attribute = attribute_inputs(config, params, base_params, attribute_BA)
  text = text_inputs(config, params, ids_BT, jnp.arange(length)[None], taps)
  size = attribute.shape[1]
  x = jnp.concatenate([attribute, text], axis=1)
  input_key = stack_key = None
  if dropout_key is not None:
    input_key, stack_key = jax.random.split(dropout_key)
  x = dropout(constrain(x), config.dropout, input_key)
  mask = attention_mask(
      attribute_length_B, size, masks.causal_mask(length)
  )
  x, _ = stack.apply(
      config.transformer, params["layers"], x, mask, dropout_key=stack_key,
      positions=jnp.concatenate([jnp.arange(size), jnp.arange(length)])[None],
  )
  return project(config, params, x[:, size:])


def shift(
    config: AuxiliaryConfig,
    params: Params,
    base_hidden: jax.Array,
    hidden: jax.Array,
) -> jax.Array:
  """What is added to the frozen model's hidden states, [..., D], for "feature".

  "sum" is the auxiliary's own: the sum's logits are the sum of both models'.
  "gate" joins the two, see `Gate`.
  """
  if config.combination == "sum":
    return hidden
  gate = _gate(config)
  return gate.apply({"params": params["gate"]}, base_hidden, hidden)


class Gate(nn.Module):
  """Gated fusion of two hidden states (Fan et al. 2018, `fconv_self_att.py`).

  y = [h; h_pre], g = sigmoid(W y) gates both, and a joining network of three
  linear layers with LayerNorms and GLUs follows. Here its last layer begins at
  zero and its result is added to the frozen model's state instead of replacing
  it, so that training begins at the frozen model.

  Attributes:
    width: D.
    epsilon: of the LayerNorms.
  """

  width: int
  epsilon: float

  @nn.compact
  def __call__(self, base: jax.Array, hidden: jax.Array) -> jax.Array:
    y = jnp.concatenate([hidden, base], -1)
    layer = lambda n, name: Linear(n, ("embed", None), name=name)
    gates = jax.nn.sigmoid(layer(2 * self.width, "gates")(y))
    x = y * gates
    for i in range(2):
      x = layer(2 * self.width, f"join{i + 1}")(x)
      x = nn.glu(LayerNorm(self.epsilon, name=f"norm{i + 1}")(x))
    x = LayerNorm(self.epsilon, name="norm3")(layer(self.width, "join3")(x))
    last = self.param(
        "scale",
        nn.with_logical_partitioning(nn.initializers.zeros, (None,)),
        (self.width,),
    )
    return x * last.astype(x.dtype).reshape((1,) * (x.ndim - 1) + (-1,))


def _gate(config: AuxiliaryConfig) -> Gate:
  return Gate(
      config.base.d_model, config.base.layer_norm_epsilon, parent=None
  )


def _boxed(value: jax.Array, *names: str | None) -> Any:
  names = names or (None,) * value.ndim
  return nn.LogicallyPartitioned(value, names)
