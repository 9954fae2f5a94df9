"""Which rows of a batch a process reads, and how they become global arrays."""

import jax
import numpy as np
from jax.sharding import Sharding


class Rows:
  """The rows of a batch that lie on this process's devices.

  Of which there may be others' too: where a mesh axis that does not cut the
  batch crosses processes, several read the same rows. Where devices of a batch
  axis alternate between processes, the rows are not consecutive.

  Args:
    sharding: of the arrays [B, ...] of a batch.
    batch_size: B; divided by the sharding.

  Attributes:
    numbers: of the rows, ascending, int [b].
  """

  def __init__(self, sharding: Sharding, batch_size: int):
    self._sharding = sharding
    self._all = np.arange(batch_size)
    parts = sharding.addressable_devices_indices_map((batch_size,)).values()
    self.numbers = np.unique(np.concatenate([self._all[i] for i in parts]))

  def put(self, batch: dict[str, np.ndarray]) -> dict[str, jax.Array]:
    """Returns global arrays [B, ...] of this process's rows [b, ...]."""
    return {k: self._put(x, self.numbers) for k, x in batch.items()}

  def put_whole(self, batch: dict[str, np.ndarray]) -> dict[str, jax.Array]:
    """Returns global arrays of a batch [B, ...] that every process has."""
    return {k: self._put(x, self._all) for k, x in batch.items()}

  def _put(self, x, numbers):
    def part(index):
      first, *others = index
      # A device's rows are consecutive, so they are among `numbers`, too.
      wanted = self._all[first]
      start = np.searchsorted(numbers, wanted[0])
      return x[(slice(start, start + len(wanted)), *others)]

    shape = (len(self._all), *x.shape[1:])
    return jax.make_array_from_callback(shape, self._sharding, part)
