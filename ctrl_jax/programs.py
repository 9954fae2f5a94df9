"""What compiled programs hold in memory, by the compiler's own account."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def peak_bytes(compiled: Any) -> int:
  """Returns what one device holds in a run: arguments, results, temporaries.

  Args:
    compiled: from `jax.jit(f).lower(...).compile()`. Arguments whose memory
      the results take over count once.
  """
  m = compiled.memory_analysis()
  return (
      m.argument_size_in_bytes + m.output_size_in_bytes
      - m.alias_size_in_bytes + m.temp_size_in_bytes
      + m.generated_code_size_in_bytes
  )


class Calls:
  """Notes with what shapes jitted functions are called, the largest of each.

  Nothing is compiled, and no array kept, until `peak_bytes` is asked.

  Example:

  >>> calls = Calls()
  >>> x = np.zeros(1000, np.float32)
  >>> calls.note(jax.jit(lambda x: x + 1), x)
  >>> calls.peak_bytes()  # Argument and result.
  8000
  """

  def __init__(self):
    self._largest = {}  # Function -> (bytes of the arguments, arguments).

  def clear(self) -> None:
    """Forgets all."""
    self._largest.clear()

  def note(self, function: Callable[..., Any], *args: Any) -> None:
    """Takes note of a call: a jitted function and its positional arguments."""
    size = sum(x.nbytes for x in jax.tree.leaves(args) if _is_array(x))
    if size > self._largest.get(function, (-1,))[0]:
      self._largest[function] = size, jax.tree.map(_shape, args)

  def peak_bytes(self) -> int:
    """Returns the most that one of the noted calls holds; 0 for none."""
    return max(
        (
            _peak_bytes(function, *_hashable(args))
            for function, (_, args) in self._largest.items()
        ),
        default=0,
    )


def _is_array(x: Any) -> bool:
  return isinstance(x, jax.Array | np.ndarray | np.generic)


def _shape(x: Any) -> Any:
  return jax.ShapeDtypeStruct(x.shape, x.dtype) if _is_array(x) else x


def _hashable(args):
  leaves, tree = jax.tree.flatten(args)
  return tuple(leaves), tree


@functools.lru_cache
def _peak_bytes(function, leaves, tree) -> int:
  args = jax.tree.unflatten(tree, leaves)
  return peak_bytes(function.lower(*args).compile())
