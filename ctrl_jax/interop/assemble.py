"""Parameters from named tensors of another program, and nothing less.

As a whole tree (`assemble`), or leaf by leaf so that not all are in memory at
once. What gives leaves has `shapes`, which maps paths (`layers/up/kernel`) to
shapes, and `parts(paths, layer)`, which gives those leaves or their slices of
one layer, float32: parameters in memory (`Tree`), tensors in another program's
files (`Stored`), a checkpoint (`training.checkpoint.StoredParams`).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax import errors
from ctrl_jax.interop.tensor import Tensor
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig

# Numbers that are looked at together.
_BLOCK = 1 << 22


def assemble(
    config: TransformerConfig,
    wanted: Sequence[Tensor],
    shapes: Mapping[str, Sequence[int]],
    get: Callable[[str], np.ndarray],
    where: str,
) -> dict[str, Any]:
  """Fills our tree tensor by tensor, so that memory holds it once.

  Args:
    config: see `Stored`.
    wanted: see `Stored`.
    shapes: see `Stored`.
    get: see `Stored`.
    where: see `Stored`.

  Returns:
    The parameters: NumPy, float32 (half precision is widened).

  Raises:
    errors.UserError: tensors are missing, surplus, of another shape, or not
      finite floats; they are listed.
  """
  return Stored(config, wanted, shapes, get, where).tree()


class Leaves(Protocol):
  """What the module says."""

  shapes: Mapping[str, tuple[int, ...]]

  def parts(self, paths: Sequence[str], layer: int | None) -> list[np.ndarray]:
    """Returns leaves, or their slices of a layer; may keep the last ones."""


class Tree:
  """Parameters that are in memory."""

  def __init__(self, params: Any):
    self._leaves = flat(params)
    self.shapes = {path: tuple(x.shape) for path, x in self._leaves.items()}

  def parts(self, paths: Sequence[str], layer: int | None) -> list[np.ndarray]:
    """See `Leaves`."""
    found = [self._leaves[path] for path in paths]
    return [np.asarray(x if layer is None else x[layer]) for x in found]


class Stored:
  """Leaves from named tensors of another program.

  Args:
    config: the model's.
    wanted: what our leaves are made of.
    shapes: the shape of every tensor there is, by name.
    get: returns a tensor.
    where: the file, for messages.

  Raises:
    errors.UserError: tensors are missing, surplus or of another shape; they
      are listed.
  """

  def __init__(
      self,
      config: TransformerConfig,
      wanted: Sequence[Tensor],
      shapes: Mapping[str, Sequence[int]],
      get: Callable[[str], np.ndarray],
      where: str,
  ):
    self.shapes = {
        path: tuple(x.shape) for path, x in flat(_abstract(config)).items()
    }
    _check(wanted, shapes, self.shapes, where)
    self._wanted = wanted
    self._get = get
    self._where = where
    self._tensors = {
        (path, tensor.layer): tensor
        for tensor in wanted for path in tensor.leaves
    }
    self._last = None, None

  def parts(self, paths: Sequence[str], layer: int | None) -> list[np.ndarray]:
    """See `Leaves`.

    Raises:
      errors.UserError: a tensor does not hold finite floats.
    """
    found = []
    for path in paths:
      tensor = self._tensors[path, layer]
      if self._last[0] is not tensor:
        self._last = None, None  # Let go of it before the next is read.
        self._last = tensor, self._read(tensor)
      if self._last[1] is None:
        raise _not_finite(self._where, [tensor.name])
      found.append(self._last[1][tensor.leaves.index(path)])
    return found

  def tree(self) -> dict[str, Any]:
    """Returns all leaves.

    Raises:
      errors.UserError: tensors do not hold finite floats; they are listed.
    """
    leaves = {
        path: np.empty(shape, np.float32) for path, shape in self.shapes.items()
    }
    damaged = []
    for tensor in self._wanted:
      parts = self._read(tensor)
      if parts is None:
        damaged.append(tensor.name)
        continue
      for path, part in zip(tensor.leaves, parts, strict=True):
        leaves[path][... if tensor.layer is None else tensor.layer] = part
    if damaged:
      raise _not_finite(self._where, damaged)
    return _tree(leaves)

  def _read(self, tensor: Tensor) -> list[np.ndarray] | None:
    """Returns the parts of a tensor, one a leaf; None if not finite floats."""
    x = self._get(tensor.name)
    if not jnp.issubdtype(x.dtype, jnp.floating):  # Quantised.
      return None
    with np.errstate(over="ignore"):  # float64's infinity is found below.
      x = x.astype(np.float32, copy=False)
    if not is_finite(x):
      return None
    x = x.T if tensor.transpose else x
    return np.split(x, len(tensor.leaves), axis=-1)


def is_finite(x: np.ndarray) -> bool:
  """Whether all numbers are finite; needs little memory besides `x`."""
  x = x.reshape(-1)
  return all(
      np.isfinite(x[i : i + _BLOCK]).all() for i in range(0, x.size, _BLOCK)
  )


def listing(title: str, names: Sequence[str]) -> str:
  """Returns " title: a, b and 3 more.", "" for no names."""
  if not names:
    return ""
  more = f" and {len(names) - 8} more" if len(names) > 8 else ""
  return f" {title}: {', '.join(names[:8])}{more}."


def flat(tree: Any) -> dict[str, Any]:
  """Returns the leaves by path, `layers/up/kernel`."""
  return {
      "/".join(str(key.key) for key in path): leaf
      for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }


def _not_finite(where: str, names: Sequence[str]) -> errors.UserError:
  return errors.UserError(
      f"{where} cannot be used." + listing("Not finite floats", names)
  )


def _tree(leaves: Mapping[str, np.ndarray]) -> dict[str, Any]:
  tree = {}
  for path, x in leaves.items():
    *parents, leaf = path.split("/")
    node = tree
    for name in parents:
      node = node.setdefault(name, {})
    node[leaf] = x
  return tree


def _check(wanted, shapes, ours, where: str) -> None:
  by_name = {tensor.name: tensor for tensor in wanted}
  missing = sorted(by_name.keys() - shapes.keys())
  surplus = sorted(shapes.keys() - by_name.keys())
  if missing or surplus:
    raise errors.UserError(
        f"{where} does not fit its configuration."
        + listing("Missing", missing) + listing("Not expected", surplus)
    )
  misshapen = []
  for name, tensor in by_name.items():
    *shape, width = ours[tensor.leaves[0]][tensor.layer is not None:]
    shape = [*shape, width * len(tensor.leaves)]
    if list(shapes[name]) != (shape[::-1] if tensor.transpose else shape):
      misshapen.append(f"{name} {list(shapes[name])}")
  if misshapen:
    raise errors.UserError(
        f"{where} does not fit its configuration."
        + listing("Of another shape", misshapen)
    )


@functools.lru_cache(maxsize=8)  # Tracing takes longer than a small file.
def _abstract(config: TransformerConfig) -> Any:
  key = jax.random.key(0)
  return jax.eval_shape(lambda k: transformer.init(config, k), key)
