"""What a batch's KL divergence costs, also where a batch comes in parts.

Free bits and floors are bounds of the batch's mean, and the authors' scale
depends on the batch's tokens: of a part alone, as a micro-batch is, neither is
known. So a part's cost is told the sums of the whole batch. Z latent.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

SCALES = ("per_token", "original")


class Sums(NamedTuple):
  """Of a batch or a part of it; those of the parts add up to the batch's.

  Attributes:
    kl: float32 [Z], nats a dimension, summed over sequences; of a whole batch
      0 where `KLPenalty.is_linear`, which needs no more.
    sequences: float32, those that have a target.
    tokens: float32, targets.
  """

  kl: jax.Array
  sequences: jax.Array
  tokens: jax.Array


@dataclasses.dataclass(frozen=True)
class KLPenalty:
  """Says what `CVAETask`'s fields of the same names mean.

  Attributes:
    scale: `CVAETask.kl_scale`.
    free_bits: nats a dimension.
    floor: nats a sequence.
  """

  scale: str = "per_token"
  free_bits: float = 0.0
  floor: float = 0.0

  @property
  def is_linear(self) -> bool:
    """Whether it is a multiple of the KL."""
    return not (self.free_bits or self.floor)

  @property
  def needs_whole(self) -> bool:
    """Whether a part's cost depends on the other parts."""
    return self.scale != "per_token" or not self.is_linear

  def __call__(self, own: Sums, whole: Sums | None = None) -> jax.Array:
    """What a part adds to the loss, which is a sum over the batch's targets.

    The costs of all parts, and their gradients, add up to those of the batch
    as one part.

    Args:
      own: of the part.
      whole: of the batch; None: the part is all of it.
    """
    whole = own if whole is None else whole
    sequences = jnp.maximum(whole.sequences, 1.0)
    factor = 1.0 if self.scale == "per_token" else whole.tokens / sequences
    if self.is_linear:
      return own.kl.sum() * factor
    # The batch's sum, of which the part's share alone has a gradient.
    kl_Z = own.kl + jax.lax.stop_gradient(whole.kl - own.kl)
    mean_Z = jnp.maximum(kl_Z / sequences, self.free_bits)
    cost = jnp.maximum(mean_Z.sum(), self.floor) * sequences * factor
    others = 1.0 - own.sequences / sequences
    return cost - jax.lax.stop_gradient(cost) * others
