"""How fast a chip can run what a compiled program does, at best.

Two bounds on the time of a step. Without overlap: matrix products at their
padded size or at the speed of memory, whichever is slower, and then the memory
traffic of everything else, and then the collectives, one after another. With
full overlap: the slowest of the three alone. Work of the vector unit and
latencies are in neither; `compiler_seconds`, XLA's own estimate of the cycles
of every operation, has the former. What of a bound is reached, measured runs
say (`planning/calibration.py`).
"""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

from ctrl_jax.planning import chips, costs
from ctrl_jax.planning import topologies as topologies_lib


@dataclasses.dataclass(frozen=True)
class Collective:
  """Collectives of a kind among groups of a size, all runs in a step.

  Attributes:
    kind: as `all-gather`.
    group: devices a group.
    runs: how many.
    bytes: of the whole arrays, as padded in memory, all runs together.
    seconds: the least they take.
  """

  kind: str
  group: int
  runs: int
  bytes: int
  seconds: float


@dataclasses.dataclass(frozen=True)
class Bounds:
  """Totals of one device in one run of a program.

  Attributes:
    flops: of matrix products.
    padded_flops: the same, at the sizes that the matrix unit works on.
    bytes: moved from and to the main memory.
    collectives: by kind and size of group.
    product_seconds: matrix products, each at the slower of unit and memory.
    other_seconds: memory traffic of everything else.
    collective_seconds: the collectives.
    overlap_seconds: the bound with full overlap.
    compiler_seconds: XLA's own estimate, collectives added; 0 for none.
  """

  flops: int
  padded_flops: int
  bytes: int
  collectives: tuple[Collective, ...]
  product_seconds: float
  other_seconds: float
  collective_seconds: float
  overlap_seconds: float
  compiler_seconds: float

  @property
  def seconds(self) -> float:
    """The bound without overlap."""
    return self.product_seconds + self.other_seconds + self.collective_seconds


def bounds(
    operations: Sequence[costs.Operation],
    topology: topologies_lib.Topology,
    devices: Sequence[Any],
) -> Bounds:
  """Adds up what the operations of a program take on a slice.

  Args:
    operations: from `costs.operations`.
    topology: the slice. Without figures of its chip all times are 0.
    devices: the program's, in the order of its partitions.
  """
  chip = topology.chip
  products = others = 0.0
  totals = collections.defaultdict(lambda: [0, 0, 0.0])
  for o in operations:
    if o.collective:
      entry = totals[o.collective, len(o.group)]
      entry[0] += o.times
      entry[1] += o.times * o.message
      entry[2] += o.times * collective_seconds(o, topology, devices)
    elif chip and o.products:
      products += o.times * product_seconds(o, chip)
    elif chip:
      others += o.times * o.bytes / chip.bandwidth
  mxu = chip.mxu if chip else 1
  padded = sum(
      o.times * sum(p.padded_flops(mxu) for p in o.products) for o in operations
  )
  moved = sum(o.times * o.bytes for o in operations)
  collectives = tuple(
      Collective(kind, group, *entry)
      for (kind, group), entry in sorted(totals.items())
  )
  messages = sum(c.seconds for c in collectives)
  overlap = compiler = 0.0
  if chip:
    overlap = max(padded / chip.peak, moved / chip.bandwidth, messages)
    if chip.clock:
      cycles = sum(o.times * o.cycles for o in operations if not o.collective)
      compiler = cycles / chip.clock + messages
  return Bounds(
      flops=sum(o.times * o.flops for o in operations),
      padded_flops=padded,
      bytes=moved,
      collectives=collectives,
      product_seconds=products,
      other_seconds=others,
      collective_seconds=messages,
      overlap_seconds=overlap,
      compiler_seconds=compiler,
  )


def product_seconds(operation: costs.Operation, chip: chips.Chip) -> float:
  """The least that one run of an operation with matrix products takes."""
  padded = sum(p.padded_flops(chip.mxu) for p in operation.products)
  return max(padded / chip.peak, operation.bytes / chip.bandwidth)


def collective_seconds(
    operation: costs.Operation,
    topology: topologies_lib.Topology,
    devices: Sequence[Any],
) -> float:
  """The least that one run of a collective takes; 0 without a chip's figures.

  In an all-gather a chip has to receive all of the array but its own part
  through its links; a chip in the corner of the group has one link an axis, or
  two where the axis is a ring. (A reduce-scatter is the same backwards, an
  all-reduce is both.) Groups that share a chip share its links. In an
  all-to-all half of everything has to cross the middle of the longest axis. Of
  permutations as many go on at a time as there are links.
  """
  chip = topology.chip
  if chip is None:
    return 0.0
  coords = {tuple(devices[i].coords) for i in operation.group}
  local = operation.bytes / chip.bandwidth
  if len(coords) < 2:
    return local
  extents = [len(set(axis)) for axis in zip(*coords)][: len(topology.sizes)]
  rings = [
      extent == topology.sizes[axis] and topologies_lib.is_ring(topology, axis)
      for axis, extent in enumerate(extents)
  ]
  sharing = chip.devices * len(coords) / len(operation.group)
  message = operation.message * sharing
  if operation.collective.endswith("all-to-all"):
    longest = max(range(len(extents)), key=lambda axis: extents[axis])
    ways = 2 if rings[longest] else 1
    across = message * extents[longest] / 4
    return max(local, across / (ways * chip.link))
  links = sum(1 + ring for extent, ring in zip(extents, rings) if extent > 1)
  if operation.collective == "collective-permute":
    return max(local, message / (links * chip.link))
  received = message * (len(coords) - 1) / len(coords)
  times = costs.COLLECTIVES[operation.collective]
  return max(local, times * received / (links * chip.link))
