"""Rows of a batch: of one device, and of processes with some of the devices.

Several real processes: test_processes.py.
"""

import types

import jax
import numpy as np
import pytest

from ctrl_jax.training import rows, sharding

BATCH = {
    "tokens": np.arange(8 * 3, dtype=np.int32).reshape(8, 3),
    "length": np.arange(8, dtype=np.int32),
}


def of_process(*parts):
  """A sharding as a process sees it whose devices have these (first, end)."""
  return types.SimpleNamespace(
      addressable_devices_indices_map=lambda shape: {
          device: (slice(*part),) for device, part in enumerate(parts)
      }
  )


def test_one_device_has_all_rows():
  mesh = sharding.make_mesh(1, 1, 1, jax.devices()[:1])
  cut = sharding.batch_sharding(mesh, sharding.ShardingRules())
  own = rows.Rows(cut, 8)
  assert own.numbers.tolist() == list(range(8))
  for arrays in (own.put(BATCH), own.put_whole(BATCH)):
    for name, x in BATCH.items():
      assert arrays[name].sharding == cut and arrays[name].dtype == x.dtype
      np.testing.assert_array_equal(arrays[name], x)


@pytest.mark.parametrize("parts, numbers", [
    ([(4, 6), (6, 8)], [4, 5, 6, 7]),
    # An axis that does not cut the batch: two devices have the same rows.
    ([(0, 2), (0, 2)], [0, 1]),
    # Devices of a batch axis alternate between processes.
    ([(2, 4), (6, 8)], [2, 3, 6, 7]),
    # In the order of the devices, not of the rows.
    ([(6, 8), (2, 4)], [2, 3, 6, 7]),
])
def test_each_device_gets_its_rows_of_what_was_read(
    parts, numbers, monkeypatch
):
  own = rows.Rows(of_process(*parts), 8)
  assert own.numbers.tolist() == numbers

  def check(shape, _, part):
    name = "tokens" if len(shape) == 2 else "length"
    assert shape == BATCH[name].shape
    for place in parts:
      index = (slice(*place), slice(None))[: len(shape)]
      np.testing.assert_array_equal(part(index), BATCH[name][slice(*place)])
    return name

  monkeypatch.setattr(rows.jax, "make_array_from_callback", check)
  read = {k: x[own.numbers] for k, x in BATCH.items()}
  assert own.put(read) == own.put_whole(BATCH) == {k: k for k in BATCH}
