"""Reads a checkpoint: a whole state, the parameters, or one after the other.

Damage is noticed, and parameters are float32 however they are stored, see
`training.weights`.

A step's folder has two items: `state` (parameters, optimizer state, counters)
and `meta` (JSON: a checksum an array, seconds trained). The position in the
data, the learning rate and dropout are functions of the step.
"""

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

from ctrl_jax import errors
from ctrl_jax.interop import assemble
from ctrl_jax.training import checksum, event_loops, sharding, weights

FOLDER = "checkpoints"
# The entries of a state that hold parameters, see `training.step.State`.
_PARAMS, _LOW_BITS = "params", "low_bits"
# Numbers that are joined together on the host.
_BLOCK = 1 << 22


def absolute(path: epath.PathLike) -> epath.Path:
  """Returns `path` as Orbax wants it; `gs://...` is absolute already.

  Without links and `..`: of `missing/../x` the system says that there is no
  such folder, until something makes `missing`.
  """
  path = epath.Path(path)
  return path if "://" in str(path) else path.resolve()


def saved_steps(workdir: epath.PathLike) -> list[int]:
  """Steps whose checkpoints lie in a workdir, oldest first; [] without one."""
  folder = absolute(workdir) / FOLDER
  if not folder.exists():
    return []
  # `isdigit` alone takes a superscript two, too.
  names = [p.name for p in folder.iterdir()]
  return sorted(int(n) for n in names if n.isascii() and n.isdigit())


def read_state(path: epath.Path, abstract: Any) -> tuple[Any, dict[str, Any]]:
  """Reads one step's whole state and its `meta`.

  Args:
    path: the step's folder.
    abstract: tree of `jax.ShapeDtypeStruct` with shardings.

  Raises:
    Exception: whatever Orbax fails with on damage; see `reason`.
  """
  with _reader(ocp.StandardCheckpointHandler) as reader:
    state = reader.restore(
        path / "state", args=ocp.args.StandardRestore(abstract)
    )
  return state, _with_times(_meta(path))


def _with_times(meta: dict[str, Any]) -> dict[str, Any]:
  # Runs of earlier versions have not counted productive seconds.
  meta = {"productive": 0.0, **meta}
  for name in ("seconds", "productive"):
    value = meta.get(name)
    if not isinstance(value, int | float) or not 0 <= value < float("inf"):
      raise ValueError(f"its meta says {name}={value!r}")
  return meta


def load_params(workdir: epath.PathLike, step: int | None = None) -> Any:
  """Restores the parameters alone, float32, whole on the first device.

  Args:
    workdir: a training's workdir.
    step: None for the newest checkpoint.

  Raises:
    errors.UserError: no such checkpoint, or a damaged one.
  """
  path = _path(workdir, step)
  device = jax.local_devices()[0]
  whole = jax.sharding.SingleDeviceSharding(device)
  # A training that begins with them has set a mesh of all devices.
  mesh = sharding.make_mesh(1, 1, 1, [device])
  with _reading(path), jax.set_mesh(mesh):
    tree = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole),
        _describe(path),
    )
    args = ocp.checkpoint_utils.construct_restore_args(tree)
    restored = _restore_params(path, tree, args)
    wrong = damage(restored, _meta(path)["checksums"])
    if wrong:
      raise ValueError(wrong)
    _join(restored[_PARAMS], restored.get(_LOW_BITS, {}))
  return restored[_PARAMS]


def _join(params: Any, low: Any) -> None:
  """Makes parameters float32 in place, so that few are in memory twice."""
  for name in params:
    if isinstance(params[name], dict):
      _join(params[name], low.get(name, {}))
    elif name in low:
      params[name] = _whole(params[name], low.pop(name))
    else:
      params[name] = params[name].astype(jnp.float32)


_whole = jax.jit(weights.whole)


class StoredParams:
  """The parameters of a checkpoint leaf by leaf: an `assemble.Leaves`.

  Args:
    workdir: a training's workdir.
    step: None for the newest checkpoint.

  Raises:
    errors.UserError: no such checkpoint, or a damaged one; reading a damaged
      leaf raises it too.
  """

  def __init__(self, workdir: epath.PathLike, step: int | None = None):
    self._folder = _path(workdir, step)
    with _reading(self._folder):
      described = _describe(self._folder)
      self._leaves = assemble.flat(described[_PARAMS])
      self._low_bits = assemble.flat(described.get(_LOW_BITS, {}))
      self._sums = _meta(self._folder)["checksums"]
    self.shapes = {path: tuple(x.shape) for path, x in self._leaves.items()}
    self._last = (), []

  def parts(self, paths: Sequence[str], layer: int | None) -> list[np.ndarray]:
    """Returns leaves, or their slices of a layer; keeps the last leaves."""
    if self._last[0] != tuple(paths):
      self._last = (), []  # Let go of them before the next are read.
      with _reading(self._folder):
        self._last = tuple(paths), [self._read(path) for path in paths]
    found = self._last[1]
    if layer is not None:  # The next layers' halves stay halves.
      return [_join_host(*(x[layer] for x in halves)) for halves in found]
    for i, halves in enumerate(found):
      found[i] = (_join_host(*halves),)
    return [x for (x,) in found]

  def _read(self, path: str) -> tuple[np.ndarray, ...]:
    """Returns a leaf as it is stored: as one array, or as two."""
    x = self._read_entry(_PARAMS, self._leaves, path)
    if path not in self._low_bits:
      return (x,)
    return x, self._read_entry(_LOW_BITS, self._low_bits, path)

  def _read_entry(self, entry, leaves, path) -> np.ndarray:
    names = [entry, *path.split("/")]
    # As a NumPy array: one of JAX's would be a copy.
    tree, args = leaves[path], ocp.RestoreArgs(restore_type=np.ndarray)
    for name in reversed(names):
      tree, args = {name: tree}, {name: args}
    (x,) = jax.tree.leaves(_restore_params(self._folder, tree, args))
    expected = self._sums["".join(f"[{name!r}]" for name in names)]
    if checksum.array_checksum(x) != expected:
      raise ValueError(f"checksum differs for {'/'.join(names)}")
    return x


def _join_host(high: np.ndarray, low: np.ndarray | None = None) -> np.ndarray:
  """Returns float32 of what is stored, in little memory besides."""
  if low is None:
    return high.astype(np.float32, copy=False)
  x = np.empty(high.shape, np.float32)
  rows = max(_BLOCK * len(high) // high.size, 1)
  for i in range(0, len(x), rows):
    x[i : i + rows] = weights.whole(high[i : i + rows], low[i : i + rows])
  return x


def _path(workdir: epath.PathLike, step: int | None) -> epath.Path:
  folder = absolute(workdir) / FOLDER
  steps = saved_steps(workdir)
  if not steps or (step is not None and step not in steps):
    raise errors.UserError(
        f"No checkpoint{'' if step is None else f' of step {step}'} in"
        f" {folder}: train first, or check the path (there are: {steps})."
    )
  return folder / str(steps[-1] if step is None else step)


@contextlib.contextmanager
def _reading(path: epath.Path):
  """Turns what reading a damaged checkpoint fails with into one line."""
  try:
    with event_loops.patient():
      yield
  except jax.errors.JaxRuntimeError:
    raise
  except Exception as e:
    if errors.is_passing(e):
      raise errors.Passing(
          f"Cannot read {path} now: {reason(e)}. Run the same command again."
      ) from e
    raise errors.UserError(
        f"Checkpoint {path} is damaged: {reason(e)}."
        " Restore it from a copy, or run the training command again: it goes"
        " on from the checkpoint before."
    ) from e


def reason(e: Exception) -> str:
  """What went wrong with reading, in one short line."""
  says = " ".join(str(e).split())
  return says.partition(". See full TensorStore")[0].rstrip(".")[:300]


def damage(tree: Any, expected: dict[str, int]) -> str:
  """Which arrays are not what was saved; "" when all are."""
  actual = checksum.tree_checksums(tree)
  wrong = [k for k, v in actual.items() if expected.get(k) != v]
  if not wrong:
    return ""
  return (
      f"checksum differs for {', '.join(wrong[:5])}"
      f" ({len(wrong)} of {len(actual)} arrays)"
  )


@contextlib.contextmanager
def _without_orbax_warnings():
  """Orbax misses a file that only a checkpoint of one item has."""
  logger = logging.getLogger("absl")
  was, logger.disabled = logger.disabled, True
  try:
    yield
  finally:
    logger.disabled = was


def _reader(handler: Callable[..., Any]) -> ocp.Checkpointer:
  """Reads for this process alone: another one's error stops none of them."""
  options = ocp.options.MultiprocessingOptions(
      primary_host=None,
      active_processes={jax.process_index()},
      barrier_sync_key_prefix=f"reader_{jax.process_index()}",
  )
  return ocp.Checkpointer(
      handler(multiprocessing_options=options), multiprocessing_options=options
  )


@_without_orbax_warnings()
def _describe(path: epath.Path) -> Any:
  """Returns shapes and dtypes of the parameters: `params`, maybe `low_bits`."""
  with _reader(ocp.PyTreeCheckpointHandler) as reader:
    metadata = reader.metadata(path / "state").item_metadata
  if metadata is None:
    raise ValueError("the description of its arrays cannot be read")
  tree = {_PARAMS: metadata.tree[_PARAMS]}
  if metadata.tree.get(_LOW_BITS):
    tree[_LOW_BITS] = metadata.tree[_LOW_BITS]
  return jax.tree.map(
      lambda m: jax.ShapeDtypeStruct(m.shape, m.dtype), tree
  )


def _meta(path: epath.Path) -> dict[str, Any]:
  with _reader(ocp.JsonCheckpointHandler) as reader:
    return reader.restore(path / "meta")


@_without_orbax_warnings()
def _restore_params(path: epath.Path, tree: Any, restore_args: Any) -> Any:
  """Restores the entries of parameters in `tree`, some or all."""
  with _reader(ocp.PyTreeCheckpointHandler) as reader:
    return reader.restore(
        path / "state",
        args=ocp.args.PyTreeRestore(
            item=tree, restore_args=restore_args, partial_restore=True
        ),
    )
