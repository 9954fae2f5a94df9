"""A frozen model's hidden states of all training records, kept on disk.

They are the same in every epoch, so a task that reads nothing else of its
frozen model trains without running it: on two CPU cores the larger part of a
step. A folder holds

  states.json  what they are of, and how many records are done
  states.bin   [N, S, T, D], S states a token in the order of their names

as plain numbers: N * S * T * D of them, two or four bytes each.
"""

import contextlib
import dataclasses
import functools
import json
import math
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import filelock
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import tqdm

from ctrl_jax import errors
from ctrl_jax.data import files, records, replace
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.evaluation import output

_META, _NUMBERS = "states.json", "states.bin"
# Records between two notes of how far the work is.
_BLOCK = 512

States = Mapping[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class FrozenStates:
  """The states in a folder: place of a training record -> name -> [T, D].

  Attributes:
    folder: where they are, or are to be.
    identity: what they are of, JSON types; a folder of others is refused.
    names: of the states, S.
    shape: (N, S, T, D).
    dtype: of the numbers.
  """

  folder: pathlib.Path
  identity: Mapping[str, Any]
  names: tuple[str, ...]
  shape: tuple[int, ...]
  dtype: np.dtype

  def __getitem__(self, index: int) -> dict[str, np.ndarray]:
    return dict(zip(self.names, self._numbers[index], strict=True))

  @functools.cached_property
  def _numbers(self) -> np.ndarray:
    return self._open("r")

  def make(
      self,
      compute: Callable[[jax.Array], States],
      manifest: Manifest,
      batch_size: int,
      show: bool = True,
  ) -> None:
    """Computes what is missing; goes on where an earlier call ended.

    Args:
      compute: int32 ids [B, T] -> the states, [B, T, D] each.
      manifest: the data set.
      batch_size: B.
      show: whether to draw a bar.

    Raises:
      errors.UserError: the folder holds something else, another process is at
        it, the disk is too small, or states are not finite.
    """
    with self._locked(), errors.naming(self.folder):
      done = self._begin()
      data = records.open_split(manifest.folder, "train")
      bar = tqdm.tqdm(
          total=self.shape[0], initial=done, unit=" frozen states",
          disable=not show or done == self.shape[0],
      )
      with bar:
        for start in range(done, self.shape[0], _BLOCK):
          end = min(start + _BLOCK, self.shape[0])
          self._write(start, self._block(compute, data, start, end, batch_size))
          self._note(end)
          bar.update(end - start)

  def _block(self, compute, data, start, end, batch_size) -> np.ndarray:
    found = np.empty((end - start, *self.shape[1:]), self.dtype)
    for first in range(start, end, batch_size):
      places = range(first, min(first + batch_size, end))
      ids = np.stack([data[i]["tokens"][:-1] for i in places])
      # All batches of one shape: one compilation.
      ids = np.pad(ids, [(0, batch_size - len(ids)), (0, 0)])
      states = compute(jnp.asarray(ids, jnp.int32))
      for k, name in enumerate(self.names):
        found[first - start :, k][: len(places)] = np.asarray(
            states[name]
        )[: len(places)]
    if not np.isfinite(found.astype(np.float32)).all():
      raise errors.UserError(
          "The frozen model's hidden states are not finite on training records"
          f" {start} to {end - 1}: compute it in another model.dtype."
      )
    return found

  def _open(self, mode: str) -> np.ndarray:
    return np.memmap(self.folder / _NUMBERS, self.dtype, mode, 0, self.shape)

  def _write(self, start: int, block: np.ndarray) -> None:
    numbers = self._open("r+")
    numbers[start : start + len(block)] = block
    numbers.flush()

  def _note(self, done: int) -> None:
    text = json.dumps({**self.identity, "done": done}, indent=1)
    output.write_bytes(self.folder / _META, text.encode())

  @contextlib.contextmanager
  def _locked(self) -> Iterator[None]:
    self.folder.parent.mkdir(parents=True, exist_ok=True)
    name = self.folder.with_name(f".{self.folder.name}.lock")
    lock = filelock.FileLock(name, timeout=0)
    try:
      with lock:
        yield
    except filelock.Timeout as e:
      raise errors.UserError(
          f"Another process is making {str(self.folder)!r}: wait for its end."
      ) from e

  def _begin(self) -> int:
    """Makes the folder if it is missing; returns how many records are done."""
    meta = self.folder / _META
    size = math.prod(self.shape) * self.dtype.itemsize
    if not meta.exists():
      if self.folder.exists() and any(self.folder.iterdir()):
        raise errors.UserError(
            f"train.frozen_states: {str(self.folder)!r} is a folder of"
            " something else. Name one that is not there yet."
        )
      self._check_space(size)
      self.folder.mkdir(exist_ok=True)
      with open(self.folder / _NUMBERS, "wb") as f:
        f.truncate(size)
        if hasattr(os, "posix_fallocate"):  # Or a full disk is a SIGBUS later.
          os.posix_fallocate(f.fileno(), 0, size)
      self._note(0)
    try:
      found = json.loads(meta.read_text(encoding="utf-8"))
      done = int(found.pop("done"))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
      raise errors.UserError(f"{meta} is damaged: delete its folder.") from e
    if found != self.identity:
      raise errors.UserError(
          f"train.frozen_states: {str(self.folder)!r} holds the states of"
          " another model, data set or depth. Name another folder, or delete"
          " this one."
      )
    numbers = self.folder / _NUMBERS
    if not numbers.is_file() or numbers.stat().st_size != size or not (
        0 <= done <= self.shape[0]
    ):
      raise errors.UserError(f"{numbers} is damaged: delete its folder.")
    return done

  def _check_space(self, size: int) -> None:
    free = shutil.disk_usage(self.folder.parent).free
    if size > free:
      raise errors.UserError(
          f"train.frozen_states needs {size / 1e9:.1f} GB at"
          f" {str(self.folder)!r}, where {free / 1e9:.1f} GB are free: name a"
          " folder on a larger disk, or prepare less data."
      )


def plan(
    folder: str, task: Any, manifest: Manifest, base_hash: str
) -> FrozenStates | None:
  """Returns the states that a task's training is to read, not yet made.

  Args:
    folder: `train.frozen_states`; "" for none.
    task: of the training.
    manifest: the data set.
    base_hash: of the frozen model.

  Raises:
    errors.UserError: the task reads more of its model, or there are several
      processes.
  """
  if not folder:
    return None
  if not hasattr(task, "frozen_states"):
    raise errors.UserError(
        "train.frozen_states is for task.name='auxiliary_tuning', which reads"
        " nothing but hidden states of its frozen model: leave it empty."
    )
  if jax.process_count() > 1:
    raise errors.UserError(
        "train.frozen_states is for one process: leave it empty."
    )
  length = manifest.sequence_length
  abstract = jax.eval_shape(
      lambda key, ids: task.frozen_states(nn.unbox(task.init(key)), ids),
      jax.random.key(0), jax.ShapeDtypeStruct((1, length), jnp.int32),
  )
  names = tuple(sorted(abstract))
  one = abstract[names[0]]
  shape = (manifest.size("train"), len(names), *one.shape[1:])
  identity = dict(
      base_hash=base_hash, data_hash=manifest.hash, names=list(names),
      shape=list(shape), dtype=one.dtype.name,
  )
  return FrozenStates(
      replace.resolve(files.expand(folder)), identity, names, shape, one.dtype
  )
