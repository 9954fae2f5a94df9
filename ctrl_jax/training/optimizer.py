"""The optimizers that the paper compared, by name, with its schedule."""

import dataclasses
import math

import optax

from ctrl_jax import errors
from ctrl_jax.training import factored_adagrad


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
  """See `config.default().optimizer`."""

  name: str = "adagrad"
  learning_rate: float = 0.05
  warmup_steps: int = 25_000
  decay_steps: int = 0
  clip_norm: float = 0.25
  initial_accumulator: float = 0.1

  def __post_init__(self):
    if self.name not in _BY_NAME:
      raise errors.UserError(
          f"optimizer.name={self.name!r} is unknown."
          f" {errors.nearest(self.name, _BY_NAME)}"
      )
    if (
        not 0 < self.learning_rate < math.inf
        or self.warmup_steps < 0
        or not 0 <= self.clip_norm < math.inf
        or not 0 <= self.initial_accumulator < math.inf
    ):
      raise errors.UserError(
          "optimizer.learning_rate must be above 0, and warmup_steps, clip_norm"
          f" and initial_accumulator at least 0; got {self}."
      )
    if self.decay_steps and self.decay_steps <= self.warmup_steps:
      raise errors.UserError(
          f"optimizer.decay_steps={self.decay_steps} must be above"
          f" warmup_steps={self.warmup_steps}, which it begins at; or 0 for no"
          " decay."
      )


_BY_NAME = {
    "adagrad": lambda lr, c: optax.adagrad(
        lr, initial_accumulator_value=c.initial_accumulator
    ),
    "factored_adagrad": lambda lr, c: factored_adagrad.factored_adagrad(
        lr, initial_accumulator_value=c.initial_accumulator
    ),
    "adam": lambda lr, c: optax.adam(lr),
    "adafactor": lambda lr, c: optax.adafactor(lr),
    # optax.sm3 takes no schedule.
    "sm3": lambda lr, c: optax.chain(
        optax.scale_by_sm3(), optax.scale_by_learning_rate(lr)
    ),
    "novograd": lambda lr, c: optax.novograd(lr),
}


def learning_rate(config: OptimizerConfig) -> optax.Schedule:
  """Linear warm-up from 0, then constant (paper 3.2: "Learning rate decay was
  not necessary due to the monotonic nature of the Adagrad accumulator").

  Update n, counted from 0, uses learning_rate * min(1, n / warmup_steps). With
  `decay_steps` half a cosine goes on from there to 0 at that update
  (Loshchilov and Hutter 2017), for what has no such accumulator.
  """
  if config.decay_steps:
    return optax.warmup_cosine_decay_schedule(
        0.0, config.learning_rate, config.warmup_steps, config.decay_steps
    )
  if config.warmup_steps == 0:
    return optax.constant_schedule(config.learning_rate)
  return optax.linear_schedule(0.0, config.learning_rate, config.warmup_steps)


def make(config: OptimizerConfig) -> optax.GradientTransformation:
  """The optimizer with its schedule; `TrainStep` clips, over all groups."""
  return _BY_NAME[config.name](learning_rate(config), config)
