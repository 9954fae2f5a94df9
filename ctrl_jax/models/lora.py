"""LoRA: low-rank additions to a frozen model's matrices (Hu et al. 2021).

  W' = W + (alpha / r) A B      A [in, r], B [r, out]

as in arXiv 2106.09685 (there transposed), on the attention's query and value
projections unless told otherwise. A begins Kaiming-uniform, B at zero: at step
0 the model is the frozen one exactly. Nothing is added at decoding: `merge`
gives a tree like the frozen model's.

Letters as in `transformer`. The original's dropout on the input of A is not
here: it needs a product a token of its own, see `tasks/lora.py`.
"""

import dataclasses
import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from ctrl_jax import errors
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig

Params = transformer.Params
# A block's matrices; only SwiGLU has a gate.
TARGETS = ("query", "key", "value", "output", "up", "down", "gate")


@dataclasses.dataclass(frozen=True)
class LoraConfig:
  """Which matrices get an addition, and of what rank.

  Attributes:
    base: the frozen model.
    targets: names of a block's matrices, of `TARGETS`.
    rank: r.
    alpha: the addition's scale is alpha / r.

  Raises:
    errors.UserError: an unknown matrix, or numbers out of range.
  """

  base: TransformerConfig
  targets: tuple[str, ...] = ("query", "value")
  rank: int = 8
  alpha: float = 16.0

  def __post_init__(self):
    names = self.targets
    names = (names,) if isinstance(names, str) else tuple(names)
    object.__setattr__(self, "targets", names)
    known = TARGETS if self.base.activation == "swiglu" else TARGETS[:-1]
    for name in names:
      if name not in known:
        raise errors.UserError(
            f"lora.targets: a block has no matrix {name!r}."
            f" {errors.nearest(str(name), known)}"
        )
    if not names or len(set(names)) < len(names):
      raise errors.UserError(
          f"lora.targets={names!r} must name one matrix or more, each once."
      )
    if type(self.rank) is not int or not 1 <= self.rank <= self.base.d_model:
      raise errors.UserError(
          f"lora.rank={self.rank!r} must be a whole number, 1 to model.d_model="
          f"{self.base.d_model}."
      )
    if not isinstance(self.alpha, int | float) or not 0 < self.alpha < math.inf:
      raise errors.UserError(
          f"lora.alpha={self.alpha!r} must be a finite number above 0."
      )


def init_boxed(config: LoraConfig, key: jax.Array) -> Params:
  """Initial additions, in boxes that name their logical axes.

  The tree mirrors the frozen model's: `layers/NAME/a` [L, in, r] and
  `layers/NAME/b` [L, r, out], float32.
  """
  frozen = jax.eval_shape(
      lambda k: transformer.init_boxed(config.base, k), key
  )
  layers = {}
  for name, own in zip(config.targets, jax.random.split(
      key, len(config.targets)
  )):
    kernel = frozen["layers"][name]["kernel"]
    depth, rows, columns = kernel.value.shape
    stacked, row_axis, column_axis = kernel.names
    # As torch's kaiming_uniform_(a=sqrt(5)): the original's choice.
    bound = rows**-0.5
    a = jax.random.uniform(
        own, (depth, rows, config.rank), minval=-bound, maxval=bound
    )
    b = jnp.zeros((depth, config.rank, columns))
    layers[name] = {
        "a": nn.LogicallyPartitioned(a, (stacked, row_axis, None)),
        "b": nn.LogicallyPartitioned(b, (stacked, None, column_axis)),
    }
  return {"layers": layers}


def merge(config: LoraConfig, base: Params, lora: Params) -> Params:
  """Returns the frozen model's tree with the additions in its matrices.

  Args:
    config: says their scale.
    base: as `transformer.init` makes it.
    lora: as `init_boxed` makes it, without boxes.
  """
  layers: dict[str, Any] = dict(base["layers"])
  scale = config.alpha / config.rank
  for name, own in lora["layers"].items():
    kernel = layers[name]["kernel"]
    addition = scale * jnp.matmul(own["a"], own["b"])
    layers[name] = dict(layers[name], kernel=kernel + addition)
  return dict(base, layers=layers)
