"""What describes a Transformer: sizes and variants, checked."""

import dataclasses

import jax.numpy as jnp

from ctrl_jax import backend, errors

# A table of positions is computed: an absurd number would fill the memory.
_MAX_LENGTH = 2**20
REMAT = ("none", "full", "dots")


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
  """Sizes and variants of a Transformer; `config.default()` explains each.

  Raises:
    errors.UserError: a value that is not among the choices, or sizes that do
      not fit each other.
  """

  vocab_size: int
  d_model: int
  d_ff: int
  num_layers: int
  num_heads: int
  max_length: int
  positions: str = "sinusoidal"
  activation: str = "relu"
  layer_norm_epsilon: float = 1e-6
  dropout: float = 0.1
  residual: str = "raw"
  scale_embedding: bool = True
  head_bias: bool = True
  norm: str = "layer"
  num_kv_heads: int = 0
  biases: bool = True
  tied_head: bool = True
  rotary_theta: float = 10000.0
  rotary_order: str = "halves"
  embedding_init: float = 0.05
  vocab_multiple: int = 1
  remat: str = "none"
  scan_layers: bool | str = "auto"
  dtype: str = "auto"

  def __post_init__(self):
    for field in ("vocab_size", "d_model", "d_ff", "num_layers", "num_heads",
                  "max_length", "vocab_multiple"):
      value = getattr(self, field)
      if type(value) is not int or not 0 < value < 2**31:
        raise errors.UserError(
            f"model.{field}={value!r} must be a whole number, at least 1 and"
            " below 2^31."
        )
    if type(self.num_kv_heads) is not int or self.num_kv_heads < 0:
      raise errors.UserError(
          f"model.num_kv_heads={self.num_kv_heads!r} must be a whole number, 0"
          " for as many as num_heads."
      )
    for field in ("dropout", "layer_norm_epsilon", "embedding_init",
                  "rotary_theta"):
      value = getattr(self, field)
      if not isinstance(value, int | float) or isinstance(value, bool):
        raise errors.UserError(f"model.{field}={value!r} must be a number.")
    if self.max_length > _MAX_LENGTH:
      raise errors.UserError(
          f"model.max_length={self.max_length} must be at most {_MAX_LENGTH}."
      )
    if self.d_model % self.num_heads:
      raise errors.UserError(
          f"model.d_model={self.d_model} is not a multiple of"
          f" model.num_heads={self.num_heads}: change one of them."
      )
    if self.num_heads % self.kv_heads:
      raise errors.UserError(
          f"model.num_heads={self.num_heads} is not a multiple of"
          f" model.num_kv_heads={self.num_kv_heads}: change one of them."
      )
    if self.positions == "rotary" and self.head_size % 2:
      raise errors.UserError(
          f"model.d_model={self.d_model} over model.num_heads={self.num_heads}"
          f" makes heads of {self.head_size}, which rotary positions need even."
      )
    if self.positions == "sinusoidal" and self.d_model % 2:
      raise errors.UserError(
          f"model.d_model={self.d_model} must be even for sinusoidal positions."
      )
    # As a command line gives it: the field's default is a string.
    given = {"True": True, "False": False}.get(
        self.scan_layers, self.scan_layers
    )
    object.__setattr__(self, "scan_layers", given)
    errors.check_choices(
        "model",
        self,
        positions=("sinusoidal", "learned", "rotary"),
        activation=("relu", "gelu_tanh", "swiglu"),
        norm=("layer", "rms"),
        rotary_order=("halves", "pairs"),
        residual=("raw", "normalised"),
        remat=REMAT,
        dtype=("auto", "float32", "bfloat16"),
        scan_layers=("auto", True, False),
    )
    if not 0 <= self.dropout < 1:
      raise errors.UserError(f"model.dropout={self.dropout} is not in [0, 1).")
    for field in ("layer_norm_epsilon", "embedding_init"):
      if not 0 <= getattr(self, field) <= 1e3:
        raise errors.UserError(
            f"model.{field}={getattr(self, field)} must be 0 or more, and at"
            " most 1000."
        )
    if not 1 < self.rotary_theta <= 1e12:
      raise errors.UserError(
          f"model.rotary_theta={self.rotary_theta} must be above 1, and at most"
          " 1e12."
      )

  @property
  def padded_vocab_size(self) -> int:
    """Rows of the table: `vocab_size` rounded up to `vocab_multiple`."""
    return -(-self.vocab_size // self.vocab_multiple) * self.vocab_multiple

  @property
  def head_size(self) -> int:
    return self.d_model // self.num_heads

  @property
  def kv_heads(self) -> int:
    """Heads of keys and values, each read by as many heads of queries."""
    return self.num_kv_heads or self.num_heads

  @property
  def compute_dtype(self) -> jnp.dtype:
    """Dtype of matrix products; parameters are float32."""
    if self.dtype == "auto":
      return backend.current().dtype
    return jnp.dtype(self.dtype)

  @property
  def scans_layers(self) -> bool:
    """Whether the layers run in a `lax.scan` or unrolled."""
    if self.scan_layers == "auto":
      return backend.current().scan_layers
    return bool(self.scan_layers)
