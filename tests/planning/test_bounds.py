import types

import pytest

from ctrl_jax.planning import bounds, chips, costs, topologies

CHIP = chips.Chip(peak=1e12, memory=1, bandwidth=1e9, link=1e8, ring=4)
TWO_CORES = chips.Chip(
    peak=1e12, memory=1, bandwidth=1e9, link=1e8, devices=2, ring=4, clock=1e6
)


def slice_(sizes, chip=CHIP):
  """A slice and its devices, those of a chip next to each other."""
  devices = [
      types.SimpleNamespace(coords=(x, y, 0))
      for x in range(sizes[0]) for y in range(sizes[1])
      for _ in range(chip.devices)
  ]
  topology = topologies.Topology("test", "tpu", sizes, tuple(devices), chip)
  return topology, devices


def collective(kind, message, group):
  return costs.Operation("c", "", 1, (), 0, kind, message, tuple(group))


def test_a_step_without_and_with_overlap():
  topology, devices = slice_((2, 1))
  operations = [
      # 2 * 128^3 FLOPs are 4.2 us, 1,000 bytes 1 us.
      costs.Operation("p", "", 10, (costs.Product(128, 128, 128),), 1000),
      costs.Operation("m", "", 2, (), 5000),
      collective("all-gather", 2000, (0, 1)),
  ]
  found = bounds.bounds(operations, topology, devices)
  product = 10 * 2 * 128**3 / 1e12
  assert found.product_seconds == pytest.approx(product)
  assert found.other_seconds == pytest.approx(1e-5)
  assert found.collective_seconds == pytest.approx(1e-5)
  assert found.seconds == pytest.approx(product + 2e-5)
  assert found.overlap_seconds == pytest.approx(product)
  assert found.bytes == 20_000 and found.flops == 10 * 2 * 128**3
  assert found.compiler_seconds == 0.0  # No clock.


def test_a_product_of_few_rows_takes_the_time_of_its_weights():
  operation = costs.Operation(
      "p", "", 1, (costs.Product(1, 128, 128),), 10**6
  )
  assert bounds.product_seconds(operation, CHIP) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    "sizes, group, links, share",
    [
        ((2, 2), range(4), 2, 3 / 4),  # A corner has a link an axis.
        ((3, 1), range(3), 1, 2 / 3),
        ((4, 4), range(16), 4, 15 / 16),  # Rings.
        ((4, 4), range(4), 2, 3 / 4),  # One ring of them.
        ((4, 4), range(2), 1, 1 / 2),  # A part of a ring is a line.
    ],
)
def test_all_gather_is_bound_by_a_corners_links(sizes, group, links, share):
  topology, devices = slice_(sizes)
  found = bounds.collective_seconds(
      collective("all-gather", 1000, group), topology, devices
  )
  assert found == pytest.approx(1000 * share / (links * 1e8))
  twice = bounds.collective_seconds(
      collective("all-reduce", 1000, group), topology, devices
  )
  assert twice == pytest.approx(2 * found)


def test_two_groups_that_share_chips_share_links():
  topology, devices = slice_((2, 1), TWO_CORES)
  whole = bounds.collective_seconds(
      collective("all-gather", 1000, (0, 1, 2, 3)), topology, devices
  )
  half = bounds.collective_seconds(
      collective("all-gather", 1000, (0, 2)), topology, devices
  )
  assert half == pytest.approx(2 * whole)
  # Cores of one chip need no link.
  assert not bounds.collective_seconds(
      collective("all-gather", 1000, (0, 1)), topology, devices
  )


def test_all_to_all_crosses_the_middle():
  topology, devices = slice_((3, 1))
  found = bounds.collective_seconds(
      collective("all-to-all", 1000, range(3)), topology, devices
  )
  assert found == pytest.approx(1000 * 3 / 4 / 1e8)
  assert bounds.collective_seconds(
      collective("collective-permute", 1000, range(3)), topology, devices
  ) == pytest.approx(1e-5)  # One link.


def test_the_compilers_own_estimate():
  topology, devices = slice_((2, 1), TWO_CORES)
  operations = [costs.Operation("m", "", 3, (), 5000, cycles=100)]
  found = bounds.bounds(operations, topology, devices)
  assert found.compiler_seconds == pytest.approx(3e-4)


def test_without_a_chips_figures_there_are_no_times():
  topology = topologies.Topology("cpu:2", "cpu", (2,), (None, None), None)
  found = bounds.bounds(
      [costs.Operation("m", "", 2, (), 5000),
       collective("all-reduce", 100, (0, 1))],
      topology, topology.devices,
  )
  assert found.seconds == found.overlap_seconds == 0.0
  (reduced,) = found.collectives
  assert (reduced.kind, reduced.group, reduced.runs) == ("all-reduce", 2, 1)
