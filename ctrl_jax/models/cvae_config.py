"""Sizes and variants of a CVAE, and which go together."""

import dataclasses

from ctrl_jax import errors
from ctrl_jax.models import injections, pooling
from ctrl_jax.models.auxiliary import AuxiliaryConfig
from ctrl_jax.models.config import TransformerConfig

PRIORS = ("learned", "standard", "none")
SCALE_HEADS = ("log_variance", "log_sigma")
INJECTIONS = (*injections.NAMES, "auxiliary", "encoder_sequence")


@dataclasses.dataclass(frozen=True)
class CVAEConfig:
  """Sizes and variants of a CVAE; `config.default()` explains each.

  Raises:
    errors.UserError: an unknown choice, or sizes that do not fit the base.
  """

  base: TransformerConfig
  num_layers: int = 3
  latent_size: int = 64
  pooling: str = "attention"
  prior: str = "learned"
  injections: tuple[str, ...] = ("input",)
  scale_head: str = "log_variance"
  log_variance_bound: float = 10.0
  source_length: int = 64
  shared_projection: bool = False
  predicts_words: bool = False  # See `models/bag_of_words.py`.
  reads_words: bool = False  # See `models/word_heads.py`.
  auxiliary: AuxiliaryConfig | None = None

  def __post_init__(self):
    errors.check_choices(
        "cvae", self, pooling=pooling.KINDS, prior=PRIORS,
        scale_head=SCALE_HEADS,
    )
    self._check_injections()
    if type(self.num_layers) is not int or not (
        1 <= self.num_layers <= self.base.num_layers
    ):
      raise errors.UserError(
          f"cvae.num_layers={self.num_layers!r} must be 1 to"
          f" {self.base.num_layers}, the decoder's layers."
      )
    if type(self.latent_size) is not int or self.latent_size < 1:
      raise errors.UserError(
          f"cvae.latent_size={self.latent_size!r} must be a whole number, at"
          " least 1."
      )
    if not 0 < self.log_variance_bound <= 80:  # exp(80) is a float32 yet.
      raise errors.UserError(
          f"cvae.log_variance_bound={self.log_variance_bound} must be above 0,"
          " and at most 80."
      )
    if not self.has_latent and not (
        1 <= self.source_length <= self.base.max_length
    ):
      raise errors.UserError(
          f"cvae.source_length={self.source_length} must be 1 to"
          f" {self.base.max_length}, the decoder's positions."
      )
    if self.auxiliary is not None and self.auxiliary.base != self.base:
      own = dataclasses.replace(self.auxiliary, base=self.base)
      object.__setattr__(self, "auxiliary", own)

  def _check_injections(self):
    if isinstance(self.injections, str) or not self.injections:
      raise errors.UserError(
          f"cvae.injections={self.injections!r} must be a list of at least one"
          f" of {', '.join(map(repr, INJECTIONS))}."
      )
    for name in self.injections:
      if name not in INJECTIONS:
        raise errors.UserError(
            f"cvae.injections: {name!r} is unknown."
            f" {errors.nearest(str(name), INJECTIONS)}"
        )
    # One order and each once: equal sets are equal configurations.
    chosen = tuple(name for name in INJECTIONS if name in self.injections)
    object.__setattr__(self, "injections", chosen)
    alone = chosen == ("encoder_sequence",)
    if ("encoder_sequence" in chosen) != (self.prior == "none") or (
        self.prior == "none" and not alone
    ):
      raise errors.UserError(
          "cvae.prior='none' is a model without a latent, and"
          " cvae.injections=('encoder_sequence',) what it has instead: set both"
          f" or neither (cvae.prior={self.prior!r},"
          f" cvae.injections={chosen})."
      )
    if (self.predicts_words or self.reads_words) and not self.has_latent:
      raise errors.UserError(
          "cvae.bag_of_words and cvae.reads_words are of a latent, which"
          " cvae.prior='none' has not: set them to 0 and False."
      )
    assert ("auxiliary" in chosen) == (self.auxiliary is not None)
    if self.auxiliary is not None and self.auxiliary.kind != "feature":
      raise errors.UserError(
          "An auxiliary that reads a latent writes through the decoder's table:"
          f" set auxiliary.kind='feature', not {self.auxiliary.kind!r}."
      )

  @property
  def has_latent(self) -> bool:
    """Whether there is one; else the encoder's sequence is all it gives."""
    return self.prior != "none"

  @property
  def num_extra_keys(self) -> int:
    """M: keys in front of every layer's own."""
    if not self.has_latent:
      return self.source_length
    return injections.num_extra_keys(self.injections)
