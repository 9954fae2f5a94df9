"""The checkpoints of a training: written in the background, the newest whole
one restored."""

import contextlib
import logging
import shutil
import time
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from etils import epath

from ctrl_jax import errors
from ctrl_jax.data import buckets
from ctrl_jax.hosts import link, session
from ctrl_jax.training import checkpoint, checksum, event_loops

# Reading an array holds it and one chunk of it: a whole one would double that.
_SAVE = ocp.SaveArgs(chunk_byte_size=1 << 26)
# How the processes tell each other that a checkpoint may be whole.
_PASSING = "passing: "
_LOG = logging.getLogger(__name__)


class Checkpoints:
  """The checkpoints of one workdir, written in the background."""

  def __init__(self, workdir: epath.PathLike, keep: int = 2):
    self._folder = checkpoint.absolute(workdir) / checkpoint.FOLDER
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
      errors.Passing: the newest cannot be read now, which is no damage.
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
    path = self._folder / str(step)
    try:
      with event_loops.patient():
        restored = checkpoint.read_state(path, abstract)
    except jax.errors.JaxRuntimeError:  # Out of memory is no damage.
      raise
    except Exception as e:  # Orbax raises what tensorstore's reading gives.
      reason = checkpoint.reason(e) or type(e).__name__
      if errors.is_passing(e):
        reason = _PASSING + reason
    # Each process reads its own part of the files.
    reasons = session.exchange(f"the restored step {step}", reason)
    if not reasons:
      state, meta = restored
      reason = checkpoint.damage(state, meta["checksums"])
      return (state, {**meta, "step": step}), reason
    for said in reasons.values():
      if said.startswith(_PASSING):
        raise errors.Passing(
            f"Cannot read {path} now: {said.removeprefix(_PASSING)}. Run the"
            " same command again."
        )
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
    """Turns what writing fails with, a full disk mostly, into one line.

    A bucket does not fill up: that one failed is no mistake of the user's.
    """
    try:
      yield
    except jax.errors.JaxRuntimeError as e:
      if missing := link.missing_processes(e):
        raise errors.MissingProcess(
            f"{missing} did not come to writing a checkpoint: look at its log."
        ) from e
      raise
    except Exception as e:
      line = (
          f"Cannot write a checkpoint in {self._folder}:"
          f" {' '.join(str(e).split())[-200:]}."
      )
      again = "un the same command again: it goes on from the last checkpoint."
      if buckets.is_remote(str(self._folder)):  # Each raises its own.
        raise errors.Passing(f"{line} R{again}") from e
      if not isinstance(e, (OSError, ValueError, RuntimeError)):
        raise
      for path in self._folder.glob("*.orbax-checkpoint-tmp*"):
        _remove(path)
      raise errors.UserError(f"{line} Free some space and r{again}") from e


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
