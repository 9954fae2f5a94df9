"""The side network of Side-tuning (Zhang et al. 2020, arXiv 1912.13503).

A frozen model's encoding B(x) and a small network's S(x) of the same input are
merged, and the frozen head reads the result:

  R(x) = alpha B(x) + (1 - alpha) S(x)     alpha = sigmoid(a), a = 0 at first

(their code, `tlkit/models/sidetune_architecture.py`). Here B is the hidden
state after the final norm, and S a Transformer over the same token ids. There
is no attribute: what a text is to obey stands in the text.

What differs from the original, which is for vision and reinforcement learning:
it distils S from B before training, so that training begins near B. Here S
begins as a copy of the first layers and the final norm of B
(`init="first_layers"`), which costs nothing and is nearer to B than chance,
but no distillation; or at random. S reads the frozen embeddings, and a random
one of another width goes in and out through two projections.

Letters as in `transformer`; D the frozen model's width, E the side's.
"""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from ctrl_jax import errors
from ctrl_jax.models import stack, transformer
from ctrl_jax.models.block import dropout, init_linear, linear
from ctrl_jax.models.config import TransformerConfig

MERGES = ("alpha", "sum")
INITS = ("first_layers", "random")
Params = transformer.Params


@dataclasses.dataclass(frozen=True)
class SideConfig:
  """Sizes and variants of a side network; `config.default()` explains each.

  Raises:
    errors.UserError: an unknown choice, or sizes that do not fit each other.
  """

  base: TransformerConfig
  merge: str = "alpha"
  init: str = "first_layers"
  d_model: int = 256
  d_ff: int = 1024
  num_layers: int = 2
  num_heads: int = 8
  dropout: float = 0.1

  # What a term of decoding wants to know: no attribute, no states in between.
  attribute_length = 0
  taps = ()

  def __post_init__(self):
    errors.check_choices("side", self, merge=MERGES, init=INITS)
    if self.init == "first_layers":
      for field in ("d_model", "d_ff", "num_heads"):
        if getattr(self, field) != getattr(self.base, field):
          raise errors.UserError(
              f"side.{field}={getattr(self, field)} is not the frozen model's"
              f" {getattr(self.base, field)}, whose first layers"
              " side.init='first_layers' copies: set it so, or side.init to"
              " 'random'."
          )
      if self.num_layers > self.base.num_layers:
        raise errors.UserError(
            f"side.num_layers={self.num_layers} is more than the frozen"
            f" model's {self.base.num_layers}, which side.init='first_layers'"
            " copies."
        )
    try:
      _ = self.transformer
    except errors.UserError as e:
      raise errors.UserError(str(e).replace("model.", "side.")) from e

  @functools.cached_property
  def transformer(self) -> TransformerConfig:
    """The side's own Transformer: the frozen model's kind of layers."""
    same = self.init == "first_layers"
    return dataclasses.replace(
        self.base,
        d_model=self.d_model,
        d_ff=self.d_ff,
        num_layers=self.num_layers,
        num_heads=self.num_heads,
        num_kv_heads=self.base.num_kv_heads if same else 0,
        dropout=self.dropout,
    )

  def init_boxed(self, key: jax.Array) -> Params:
    """Initial parameters; see `init_boxed`."""
    return init_boxed(self, key)

  def shift(self, params, base_hidden, hidden) -> jax.Array:
    """What is added to the frozen model's hidden states; see `shift`."""
    return shift(self, params, base_hidden, hidden)


def init_boxed(config: SideConfig, key: jax.Array) -> Params:
  """Initial parameters at random, in boxes that name their logical axes.

  The tree, E = `config.d_model`:

    layers/... [N, ...], final_norm/... [E]
    a []                                          merge "alpha"
    input [D, E] and output [E, D] with biases    init "random", E != D
  """
  keys = jax.random.split(key, 3)
  boxed = transformer.init_boxed(config.transformer, keys[0])
  tree = {name: boxed[name] for name in ("layers", "final_norm")}
  if config.merge == "alpha":
    tree["a"] = nn.LogicallyPartitioned(jnp.zeros(()), ())
  width = config.base.d_model
  if config.d_model != width:
    tree["input"] = init_linear(keys[1], width, config.d_model)
    tree["output"] = init_linear(keys[2], config.d_model, width)
  return tree


def inputs(
    config: SideConfig,
    params: Params,
    base_params: Params,
    ids_BT: jax.Array,
    positions_BT: jax.Array,
) -> jax.Array:
  """What the side's Transformer reads, [B, T, E]: the frozen embeddings.

  Args:
    config: the side's.
    params: the side's.
    base_params: the frozen model's; reads `embedding` and `positions`.
    ids_BT: int32 token ids.
    positions_BT: int32 positions, [B, T] or [1, T].
  """
  x = transformer.embed(config.base, base_params, ids_BT, positions_BT)
  return linear(x, **params["input"]) if "input" in params else x


def project(config: SideConfig, params: Params, x: jax.Array) -> jax.Array:
  """Final norm and, of another width, the way out: [..., E] -> [..., D]."""
  x = transformer.final_norm(config.transformer, params, x)
  return linear(x, **params["output"]) if "output" in params else x


def hidden_states(
    config: SideConfig,
    params: Params,
    base_params: Params,
    ids_BT: jax.Array,
    *,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
  """S(x), causal hidden states [B, T, D].

  Args:
    config: the side's.
    params: the side's.
    base_params: the frozen model's.
    ids_BT: int32 token ids, padded on the right if at all.
    dropout_key: None for no dropout.
  """
  input_key = stack_key = None
  if dropout_key is not None:
    input_key, stack_key = jax.random.split(dropout_key)
  positions = jnp.arange(ids_BT.shape[1])[None]
  x = inputs(config, params, base_params, ids_BT, positions)
  x, _ = stack.apply(
      config.transformer, params["layers"],
      dropout(x, config.dropout, input_key), None, dropout_key=stack_key,
  )
  return project(config, params, x)


def shift(
    config: SideConfig,
    params: Params,
    base_hidden: jax.Array,
    hidden: jax.Array,
) -> jax.Array:
  """R(x) - B(x), [..., D]: (1 - alpha) (S - B), or S for merge "sum".

  Args:
    config: the side's.
    params: the side's.
    base_hidden: B(x), [..., D].
    hidden: S(x), [..., D].
  """
  if config.merge == "sum":
    return hidden
  share = jax.nn.sigmoid(-params["a"]).astype(hidden.dtype)
  return share * (hidden - base_hidden)
