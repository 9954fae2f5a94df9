"""How a training state stores matrices: whole, in two halves, or rounded.

Products on an accelerator read matrices as bfloat16. Where these are float32,
XLA makes a bfloat16 copy of all of them in front of the loop over the layers,
half as much memory again, and their gradients are float32, too. But a float32
number is a bfloat16 number and 16 more bits, so `split` stores it as these two:
the model reads and differentiates the first, the optimizer updates both, and
what is trained is float32 to the bit. Of frozen matrices, which no small update
must be added to, `half` keeps the first alone.

Biases, the norms' scales and whatever else is no matrix stay float32: they are
few, and some are computed with in float32.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax import errors
from ctrl_jax.training import trainable

# Of what trains, and of what is frozen.
TRAINED = ("float32", "split")
FROZEN = ("float32", "bfloat16")
# Leaves that models cast to their compute dtype before they use them.
_MATRICES = ("kernel", "table")


def check(trained: str, frozen: str) -> None:
  """Refuses unknown ways to store weights.

  Raises:
    errors.UserError: `train.weights` or `train.frozen_weights` is not one.
  """
  for field, value, known in (
      ("weights", trained, TRAINED), ("frozen_weights", frozen, FROZEN)
  ):
    if value not in known:
      raise errors.UserError(
          f"train.{field}={value!r} is not one of {', '.join(known)}."
      )


def stored(x: Any, dtype: Any) -> Any:
  """Returns what a state stores of an array in a dtype.

  Args:
    x: float32, of JAX or NumPy.
    dtype: float32: all of it; bfloat16: the nearest (halves away from zero);
      int16: what that lacks, the float32's bits less the bfloat16's, shifted.
  """
  # 32 bits wrap around, as both shifts want them to.
  if dtype == jnp.bfloat16:
    upper = (x.view(np.uint32) + np.uint32(0x8000)) >> np.uint32(16)
    return upper.astype(np.uint16).view(jnp.bfloat16)
  if dtype == np.int16:
    return x.view(np.uint32).astype(np.uint16).view(np.int16)
  return x


def half(params: Any) -> Any:
  """Returns nested dictionaries of arrays or boxes with bfloat16 matrices."""
  matrices, rest = _matrices(params)
  high = jax.tree.map(lambda x: stored(x, jnp.bfloat16), matrices)
  return trainable.merge(high, rest)


def split(params: Any) -> tuple[Any, Any]:
  """Returns `half(params)`, and the tree of what its matrices lack, int16."""
  matrices, _ = _matrices(params)
  return half(params), jax.tree.map(lambda x: stored(x, np.int16), matrices)


def join(params: Any, low: Any) -> Any:
  """Returns the float32 parameters that `split` took apart, to the bit."""
  matrices, rest = _matrices(params)
  return trainable.merge(jax.tree.map(whole, matrices, low), rest)


def whole(high: Any, low: Any) -> Any:
  """Returns the float32 array, of JAX or NumPy, that is stored as two.

  Args:
    high: bfloat16, of `stored`.
    low: int16, likewise.
  """
  upper = high.view(np.uint16).astype(np.uint32) << np.uint32(16)
  return (upper + low.astype(np.int32).astype(np.uint32)).view(np.float32)


def _matrices(params):
  """The tree of matrices, and that of all the rest."""
  chosen = jax.tree_util.tree_map_with_path(
      lambda path, _: path[-1].key in _MATRICES, params,
      is_leaf=trainable.is_box,
  )
  rest = trainable.inverse(chosen)
  return trainable.select(params, chosen), trainable.select(params, rest)
