"""The weight of the KL divergence, beta, as a function of the step."""

import dataclasses

import jax
import jax.numpy as jnp

from ctrl_jax import errors

KINDS = ("cyclical", "constant")
# Shares of a cycle: beta is low, then rises; the rest it is high.
_LOW, _RISE = 0.5, 0.25


@dataclasses.dataclass(frozen=True)
class Schedule:
  """Cyclical annealing (Fu et al. 2019) as the CVAE's paper uses it.

  In each cycle beta is low for a half, which makes the model an autoencoder
  nearly, rises linearly for a quarter and is high for a quarter. A function of
  the step alone: nothing is lost when a run resumes.

  Attributes:
    kind: "cyclical" or "constant", which is `high`.
    period: steps a cycle.
    low: beta in a cycle's first half; the authors' code has 0.01.
    high: beta at its end.

  Raises:
    errors.UserError: an unknown kind, or a number out of range.
  """

  kind: str = "cyclical"
  period: int = 1000
  low: float = 0.01
  high: float = 1.0

  def __post_init__(self):
    if self.kind not in KINDS:
      raise errors.UserError(
          f"cvae.beta_schedule={self.kind!r} is not one of"
          f" {', '.join(map(repr, KINDS))}."
      )
    if type(self.period) is not int or self.period < 1:
      raise errors.UserError(
          f"cvae.beta_period={self.period!r} must be a whole number of steps,"
          " at least 1."
      )
    if not 0 <= self.low <= self.high < float("inf"):
      raise errors.UserError(
          f"cvae.beta_low={self.low} and cvae.beta_high={self.high} must be"
          " numbers, 0 <= low <= high."
      )

  def __call__(self, step: jax.Array) -> jax.Array:
    """Returns beta, float32, of the update after `step` ones, int32.

    Example:

    >>> schedule = Schedule(period=8, low=0.0)
    >>> [float(schedule(step)) for step in range(9)]
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 0.0]
    """
    if self.kind == "constant":
      return jnp.float32(self.high)
    # Whole steps first: a float32 of a large step has no room for a fraction.
    place = (step % self.period).astype(jnp.float32) / self.period
    rise = jnp.clip((place - _LOW) / _RISE, 0.0, 1.0)
    return self.low + (self.high - self.low) * rise
