"""A parameter tree from named tensors of another program, and nothing less."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax import errors
from ctrl_jax.interop.tensor import Tensor
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig


def assemble(
    config: TransformerConfig,
    wanted: Sequence[Tensor],
    shapes: Mapping[str, Sequence[int]],
    get: Callable[[str], np.ndarray],
    where: str,
) -> dict[str, Any]:
  """Fills our tree tensor by tensor, so that memory holds it once.

  Args:
    config: the model's.
    wanted: what the tree is made of.
    shapes: the shape of every tensor there is, by name.
    get: returns a tensor.
    where: the file, for messages.

  Returns:
    The parameters: NumPy, float32 (half precision is widened).

  Raises:
    errors.UserError: tensors are missing, surplus, of another shape, or not
      finite floats; they are listed.
  """
  by_name = {tensor.name: tensor for tensor in wanted}
  missing = sorted(by_name.keys() - shapes.keys())
  surplus = sorted(shapes.keys() - by_name.keys())
  if missing or surplus:
    raise errors.UserError(
        f"{where} does not fit its configuration."
        + listing("Missing", missing) + listing("Not expected", surplus)
    )
  leaves = {path: x.shape for path, x in flat(_abstract(config)).items()}
  misshapen = []
  for name, tensor in by_name.items():
    *shape, width = leaves[tensor.leaves[0]][tensor.layer is not None:]
    shape = [*shape, width * len(tensor.leaves)]
    if list(shapes[name]) != (shape[::-1] if tensor.transpose else shape):
      misshapen.append(f"{name} {list(shapes[name])}")
  if misshapen:
    raise errors.UserError(
        f"{where} does not fit its configuration."
        + listing("Of another shape", misshapen)
    )
  leaves = {path: np.empty(shape, np.float32) for path, shape in leaves.items()}
  damaged = [
      name for name, tensor in by_name.items()
      if not _fill(leaves, tensor, get(name))
  ]
  if damaged:
    raise errors.UserError(
        f"{where} cannot be used." + listing("Not finite floats", damaged)
    )
  return _tree(leaves)


def _fill(leaves: dict, tensor: Tensor, x: np.ndarray) -> bool:
  """Copies a tensor to its leaves; says whether it holds finite floats."""
  if not jnp.issubdtype(x.dtype, jnp.floating):  # Quantised.
    return False
  x = x.astype(np.float32)
  x = x.T if tensor.transpose else x
  parts = np.split(x, len(tensor.leaves), axis=-1)
  for path, part in zip(tensor.leaves, parts):
    target = leaves[path]
    target[... if tensor.layer is None else tensor.layer] = part
  return bool(np.isfinite(x).all())


def _tree(leaves: Mapping[str, np.ndarray]) -> dict[str, Any]:
  tree = {}
  for path, x in leaves.items():
    *parents, leaf = path.split("/")
    node = tree
    for name in parents:
      node = node.setdefault(name, {})
    node[leaf] = x
  return tree


def listing(title: str, names: Sequence[str]) -> str:
  """Returns " title: a, b and 3 more.", "" for no names."""
  if not names:
    return ""
  more = f" and {len(names) - 8} more" if len(names) > 8 else ""
  return f" {title}: {', '.join(names[:8])}{more}."


def _abstract(config: TransformerConfig) -> Any:
  key = jax.random.key(0)
  return jax.eval_shape(lambda k: transformer.init(config, k), key)


def flat(tree: Any) -> dict[str, Any]:
  """Returns the leaves by path, `layers/up/kernel`."""
  return {
      "/".join(str(key.key) for key in path): leaf
      for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }
