"""Orbax checkpoints that hold all that is needed, and notice damage.

A step's folder has two items: `state` (parameters, optimizer state, counters)
and `meta` (JSON: a checksum an array, seconds trained). The position in the
data, the learning rate and dropout are functions of the step.
"""

import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

from ctrl_jax import errors
from ctrl_jax.hosts import link, session
from ctrl_jax.interop import assemble
from ctrl_jax.training import checksum, event_loops, sharding

FOLDER = "checkpoints"
# Reading an array holds it and one chunk of it: a whole one would double that.
_SAVE = ocp.SaveArgs(chunk_byte_size=1 << 26)
_LOG = logging.getLogger(__name__)


def absolute(path: epath.PathLike) -> epath.Path:
  """Returns `path` as Orbax wants it; `gs://...` is absolute already.

  Without links and `..`: of `missing/../x` the system says that there is no
  such folder, until something makes `missing`.
  """
  path = epath.Path(path)
  return path if "://" in str(path) else path.resolve()


class Checkpoints:
  """The checkpoints of one workdir, written in the background."""

  def __init__(self, workdir: epath.PathLike, keep: int = 2):
    self._folder = absolute(workdir) / FOLDER
    self._manager = ocp.CheckpointManager(
        self._folder,
        options=ocp.CheckpointManagerOptions(
            max_to_keep=keep,
            # A run killed while saving leaves a temporary folder behind.
            cleanup_tmp_directories=True,
            enable_async_checkpointing=True,
        ),
    )

  def steps(self) -> list[int]:
    """Complete checkpoints, oldest first."""
    return sorted(self._manager.all_steps())

  def save(
      self, step: int, state: Any, seconds: float, productive: float = 0.0
  ) -> None:
    """Starts writing `state`; raises what an earlier write failed with.

    Args:
      step: updates made.
      state: tree of arrays.
      seconds: trained until now, all starts together.
      productive: those of them in training steps, see `goodput`.
    """
    with self._writing():
      self._manager.check_for_errors()
    meta = {
        "checksums": checksum.tree_checksums(state),
        "seconds": round(seconds, 3),
        "productive": round(productive, 3),
    }
    copy = jax.tree.map(_keep, state)
    with self._writing():
      self._manager.save(
          step,
          args=ocp.args.Composite(
              state=ocp.args.StandardSave(
                  copy, save_args=jax.tree.map(lambda _: _SAVE, copy)
              ),
              meta=ocp.args.JsonSave(meta),
          ),
      )

  def restore(
      self, abstract: Any, step: int | None = None
  ) -> tuple[Any, dict[str, Any]]:
    """Restores the newest undamaged state, or `step`'s.

    Args:
      abstract: tree of `jax.ShapeDtypeStruct` with shardings.
      step: None for the newest; a damaged one is reported and renamed
        (`8.damaged`), and the one before it is taken.

    Returns:
      The state, and `meta` with `step` added.

    Raises:
      errors.UserError: there is none, or none is whole.
    """
    steps = self.steps() if step is None else [step]
    problems = []
    for candidate in reversed(steps):
      restored, reason = self._restore(abstract, candidate)
      if not reason:
        self._set_aside([s for s in steps if s > candidate])
        return restored
      problems.append(f"step {candidate}: {reason}")
      _LOG.error("Checkpoint %s is unusable: %s", candidate, reason)
    if not problems:
      raise errors.UserError(
          f"No checkpoint in {self._folder}: train first, or check the path."
      )
    raise errors.UserError(
        f"No usable checkpoint in {self._folder} ({'; '.join(problems)})."
        " Restore the folder from a copy, or start with another --workdir."
    )

  def _set_aside(self, steps):
    """Renames checkpoints: Orbax would not write their steps again."""
    if not steps:
      return
    if session.is_main():
      for step in steps:
        damaged = self._folder / f"{step}.damaged"
        if damaged.exists():
          damaged.rmtree()
        (self._folder / str(step)).rename(damaged)
    session.exchange("the end of setting damaged checkpoints aside")
    self._manager.reload()

  def _restore(self, abstract, step):
    """Returns (state, meta) and "", or None and what is wrong with them."""
    restored, reason = None, ""
    try:
      path = self._folder / str(step)
      with event_loops.patient():
        restored = _restore_state(path, abstract), _with_times(_meta(path))
    except jax.errors.JaxRuntimeError:  # Out of memory is no damage.
      raise
    except Exception as e:  # Orbax raises what tensorstore's reading gives.
      reason = _reason(e) or type(e).__name__
    # Each process reads its own part of the files.
    reasons = session.exchange(f"the restored step {step}", reason)
    if not reasons:
      state, meta = restored
      reason = _damage(state, meta["checksums"])
      return (state, {**meta, "step": step}), reason
    return None, reasons[min(reasons)]

  def wait(self) -> None:
    """Returns when everything is on disk; raises what went wrong."""
    with self._writing():
      self._manager.wait_until_finished()
      self._manager.check_for_errors()

  def close(self) -> None:
    """Waits, and stops the background threads."""
    with self._writing():
      self._manager.close()

  @contextlib.contextmanager
  def _writing(self):
    """Turns what writing fails with, a full disk mostly, into one line."""
    try:
      yield
    except jax.errors.JaxRuntimeError as e:
      if missing := link.missing_processes(e):
        raise errors.MissingProcess(
            f"{missing} did not come to writing a checkpoint: look at its log."
        ) from e
      raise
    except (OSError, ValueError, RuntimeError) as e:  # Of tensorstore, too.
      for path in self._folder.glob("*.orbax-checkpoint-tmp*"):
        _remove(path)
      raise errors.UserError(
          f"Cannot write a checkpoint in {self._folder}:"
          f" {' '.join(str(e).split())[-200:]}. Free some space and run the"
          " same command again: it goes on from the last checkpoint."
      ) from e


def _remove(path: epath.Path) -> None:
  """Removes what failed to be written; other threads may be at it yet."""
  for _ in range(50):
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
      return
    time.sleep(0.1)


def _keep(x: jax.Array) -> jax.Array:
  """What stays as it is when the next step reuses (donates) the memory of `x`.

  On CPU the writer would read it in place; of other devices' memory it makes a
  copy on the host before `save` returns, and a second one on the device might
  not fit.
  """
  on_cpu = next(iter(x.devices())).platform == "cpu"
  return jnp.copy(x) if on_cpu else x


def _reason(e: Exception) -> str:
  """What went wrong with reading, in one short line."""
  says = " ".join(str(e).split())
  return says.partition(". See full TensorStore")[0].rstrip(".")[:300]


def _damage(tree: Any, expected: dict[str, int], prefix: str = "") -> str:
  """Which arrays are not what was saved; "" when all are."""
  actual = checksum.tree_checksums(tree)
  wrong = [k for k, v in actual.items() if expected.get(prefix + k) != v]
  if not wrong:
    return ""
  return (
      f"checksum differs for {', '.join(prefix + k for k in wrong[:5])}"
      f" ({len(wrong)} of {len(actual)} arrays)"
  )


def saved_steps(workdir: epath.PathLike) -> list[int]:
  """Steps whose checkpoints lie in a workdir, oldest first; [] without one."""
  folder = absolute(workdir) / FOLDER
  if not folder.exists():
    return []
  # `isdigit` alone takes a superscript two, too.
  names = [p.name for p in folder.iterdir()]
  return sorted(int(n) for n in names if n.isascii() and n.isdigit())


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
    damage = _damage(restored, _meta(path)["checksums"], "['params']")
    if damage:
      raise ValueError(damage)
  return jax.tree.map(lambda x: x.astype(jnp.float32), restored)


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
      self._leaves = assemble.flat(_describe(self._folder))
      self._sums = _meta(self._folder)["checksums"]
    self.shapes = {path: tuple(x.shape) for path, x in self._leaves.items()}
    self._last = (), None

  def parts(self, paths: Sequence[str], layer: int | None) -> list[np.ndarray]:
    """Returns leaves, or their slices of a layer; keeps the last leaves."""
    if self._last[0] != tuple(paths):
      self._last = (), None  # Let go of them before the next are read.
      with _reading(self._folder):
        self._last = tuple(paths), [self._read(path) for path in paths]
    return [x if layer is None else x[layer] for x in self._last[1]]

  def _read(self, path: str) -> np.ndarray:
    # As a NumPy array: one of JAX's would be a copy.
    tree, args = self._leaves[path], ocp.RestoreArgs(restore_type=np.ndarray)
    for name in reversed(path.split("/")):
      tree, args = {name: tree}, {name: args}
    restored = _restore_params(self._folder, tree, args)
    (x,) = jax.tree.leaves(restored)
    expected = self._sums["['params']" + "".join(
        f"[{name!r}]" for name in path.split("/")
    )]
    if checksum.array_checksum(x) != expected:
      raise ValueError(f"checksum differs for {path}")
    return x.astype(np.float32, copy=False)


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
    raise errors.UserError(
        f"Checkpoint {path} is damaged: {_reason(e)}."
        " Restore it from a copy, or run the training command again: it goes"
        " on from the checkpoint before."
    ) from e


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
  """Returns the tree of the parameters' shapes and dtypes."""
  with _reader(ocp.PyTreeCheckpointHandler) as reader:
    metadata = reader.metadata(path / "state").item_metadata
  if metadata is None:
    raise ValueError("the description of its arrays cannot be read")
  return jax.tree.map(
      lambda m: jax.ShapeDtypeStruct(m.shape, m.dtype), metadata.tree["params"]
  )


def _meta(path: epath.Path) -> dict[str, Any]:
  with _reader(ocp.JsonCheckpointHandler) as reader:
    return reader.restore(path / "meta")


def _restore_state(path: epath.Path, abstract: Any) -> Any:
  """Restores a whole state, each array as its shape says."""
  with _reader(ocp.StandardCheckpointHandler) as reader:
    return reader.restore(
        path / "state", args=ocp.args.StandardRestore(abstract)
    )


def _with_times(meta: dict[str, Any]) -> dict[str, Any]:
  # Runs of earlier versions have not counted productive seconds.
  meta = {"productive": 0.0, **meta}
  for name in ("seconds", "productive"):
    value = meta.get(name)
    if not isinstance(value, int | float) or not 0 <= value < float("inf"):
      raise ValueError(f"its meta says {name}={value!r}")
  return meta


@_without_orbax_warnings()
def _restore_params(path: epath.Path, tree: Any, restore_args: Any) -> Any:
  """Restores the parameters in `tree`, some or all."""
  with _reader(ocp.PyTreeCheckpointHandler) as reader:
    return reader.restore(
        path / "state",
        args=ocp.args.PyTreeRestore(
            item={"params": tree},
            restore_args={"params": restore_args},
            partial_restore=True,
        ),
    )["params"]
