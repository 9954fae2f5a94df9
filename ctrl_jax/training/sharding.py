"""Meshes, and rules from logical axes (at the parameter) to mesh axes."""

import contextlib
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ctrl_jax import errors
from ctrl_jax.training import trainable

AXES = ("data", "fsdp", "tensor")
Axis = str | tuple[str, ...] | None


@dataclasses.dataclass(frozen=True)
class ShardingRules:
  """The mesh axis (or axes, or None for a copy everywhere) of a logical axis.

  Fully sharded data parallelism: the batch is cut over `data` and `fsdp`,
  parameters over `fsdp`, and over `tensor` where it is above 1. The tied table
  is cut by rows: at CTRL's size by columns takes six times the memory. The
  feed-forward layers are cut along their wide dimension: d_model over 256
  devices leaves 5 rows each, which a TPU stores and sends as 8 and more.
  """

  batch: Axis = ("data", "fsdp")
  # Positions of a chunk of the loss: over what does not cut the vocabulary.
  loss_batch: Axis = "data"
  length: Axis = None
  activation_embed: Axis = None
  layers: Axis = None
  embed: Axis = "fsdp"
  heads: Axis = "tensor"
  mlp: Axis = ("fsdp", "tensor")
  mlp_embed: Axis = None
  bias: Axis = ("fsdp", "tensor")
  vocab: Axis = ("fsdp", "tensor")
  vocab_embed: Axis = None
  position: Axis = None

  def spec(self, names: Sequence[str | None]) -> PartitionSpec:
    """Translates logical axes.

    Raises:
      ValueError: a name without a rule, or two names on one mesh axis.
    """
    known = dataclasses.asdict(self)
    used = []
    parts = []
    for name in names:
      if name is not None and name not in known:
        raise ValueError(f"No sharding rule for axis {name!r} of {names}.")
      axis = None if name is None else known[name]
      parts.append(axis)
      used += [axis] if isinstance(axis, str) else list(axis or ())
    if len(set(used)) < len(used):
      raise ValueError(f"{names} puts two dimensions on one mesh axis: {used}.")
    return PartitionSpec(*parts)

  def linen(self) -> list[tuple[str, Axis]]:
    """The same rules for `nn.logical_axis_rules`."""
    return list(dataclasses.asdict(self).items())


def make_mesh(
    data: int = -1,
    fsdp: int = 1,
    tensor: int = 1,
    devices: Sequence[jax.Device] | None = None,
) -> Mesh:
  """Returns a mesh with axes `data, fsdp, tensor`; one size may be -1 (rest).

  Raises:
    errors.UserError: the sizes do not multiply to the number of devices.
  """
  devices = jax.devices() if devices is None else devices
  sizes = [data, fsdp, tensor]
  known = math.prod(s for s in sizes if s != -1)
  if sizes.count(-1) > 1 or any(s == 0 or s < -1 for s in sizes):
    raise errors.UserError(
        f"mesh {dict(zip(AXES, sizes))}: sizes are at least 1, one may be -1."
    )
  if -1 in sizes and len(devices) % known == 0:
    sizes[sizes.index(-1)] = len(devices) // known
  if math.prod(sizes) != len(devices):
    raise errors.UserError(
        f"mesh {dict(zip(AXES, sizes))} needs {known} devices (or a multiple,"
        f" with one -1), but there are {len(devices)}."
    )
  # Linen's logical constraints need Auto axes; make_mesh's default is Explicit.
  return jax.make_mesh(
      sizes, AXES, devices=np.asarray(devices), axis_types=(AxisType.Auto,) * 3
  )


@contextlib.contextmanager
def use(mesh: Mesh, rules: ShardingRules):
  """Sets the mesh and the axis rules that tracing sees."""
  with jax.set_mesh(mesh), nn.logical_axis_rules(rules.linen()):
    yield


def box_like(tree: Any, boxed: Any) -> Any:
  """Puts arrays into the boxes of the parameters that they belong to.

  Args:
    tree: such as an optimizer's state: the dictionaries' keys on the path to a
      leaf are those of its parameter's. A leaf of another shape than the
      parameter's (Adafactor's factors), or of none, stays without a box.
    boxed: the parameters in their boxes.
  """
  leaves = jax.tree_util.tree_leaves_with_path(
      boxed, is_leaf=trainable.is_box
  )
  boxes = {_keys(path): box for path, box in leaves if trainable.is_box(box)}

  def one(path, x):
    box = boxes.get(_keys(path))
    same = box is not None and box.value.shape == x.shape
    return box.replace_boxed(x) if same else x

  return jax.tree_util.tree_map_with_path(one, tree)


def _keys(path) -> tuple[Any, ...]:
  return tuple(
      part.key for part in path if isinstance(part, jax.tree_util.DictKey)
  )


def shardings(mesh: Mesh, rules: ShardingRules, boxed: Any) -> Any:
  """Returns a NamedSharding a leaf, for an (abstract) tree in Linen boxes.

  A leaf without a box is copied to every device.

  Raises:
    errors.UserError: a dimension that its mesh axes do not divide.
  """

  def one(path, box):
    if not trainable.is_box(box):
      return NamedSharding(mesh, PartitionSpec())
    value, sharding = box.value, NamedSharding(mesh, rules.spec(box.names))
    try:
      sharding.shard_shape(value.shape)
    except ValueError as e:
      raise errors.UserError(
          f"{jax.tree_util.keystr(path)} of shape {value.shape} cannot be cut"
          f" as {sharding.spec} over mesh {dict(mesh.shape)}: change the mesh,"
          " or model.vocab_multiple for a table."
      ) from e
    return sharding

  return jax.tree_util.tree_map_with_path(one, boxed, is_leaf=trainable.is_box)


def batch_sharding(mesh: Mesh, rules: ShardingRules) -> NamedSharding:
  """How arrays [B, ...] of a batch are cut."""
  return NamedSharding(mesh, rules.spec(("batch",)))


def replicated(mesh: Mesh) -> NamedSharding:
  """How an array is that every device has: every process can read it."""
  return NamedSharding(mesh, PartitionSpec())


def everywhere(tree: Any) -> Any:
  """Copies a program's arrays to all devices: every process can read them.

  Args:
    tree: arrays within `jax.jit`, under `use`; without it nothing happens.
  """
  return jax.tree.map(
      lambda x: nn.with_logical_constraint(x, (None,) * x.ndim), tree
  )


@contextlib.contextmanager
def alone(tree: Any, mesh: Mesh):
  """Lets each process compute for itself, on its first device.

  All processes call it together: they gather the arrays.

  Args:
    tree: of arrays over `mesh`.
    mesh: all devices; tracing sees one of one device meanwhile.

  Yields:
    The tree, on this process's first device.
  """
  whole = jax.device_put(tree, replicated(mesh))
  tree = jax.tree.map(lambda x: x.addressable_data(0), whole)
  del whole
  device = jax.tree.leaves(tree)[0].device
  with jax.set_mesh(make_mesh(1, 1, 1, [device])):
    yield tree
