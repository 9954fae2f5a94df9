"""What a chip can do, each figure with its source.

Sources:
  [v5e], [v5p], [v6e]  cloud.google.com/tpu/docs/v5e (v5p, v6e): peak, memory,
                       bandwidth.
  [v3], [v4]           cloud.google.com/tpu/docs/v3 (v4), the same.
  [book]               jax-ml.github.io/scaling-book/tpus: one-way bandwidth of
                       a link between chips, size of a pod, of the matrix unit.
  [cacm]               Jouppi et al., "A domain-specific supercomputer for
                       training deep neural networks", CACM 63(7), 2020: v3 has
                       two cores of two 128 x 128 units at 940 MHz.
"""

import dataclasses

from ctrl_jax import errors

_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
  """One device as JAX counts them: a core of a v3 chip, else a chip.

  Attributes:
    peak: bfloat16 FLOP/s.
    memory: bytes of main memory (HBM).
    bandwidth: bytes/s of main memory.
    link: bytes/s of one link between chips, one way; the devices of a chip
      share it.
    devices: devices a chip.
    mxu: side of the matrix unit.
    ring: an axis of a slice closes to a ring when it has this many chips.
    ring_multiple: or when it is a multiple of this; 0 for never.
    clock: Hz, where the matrix units and the clock give the peak; 0 unknown.
  """

  peak: float
  memory: int
  bandwidth: float
  link: float
  devices: int = 1
  mxu: int = 128
  ring: int = 16
  ring_multiple: int = 0
  clock: float = 0.0


CHIPS = {
    # [v3]: 123 TFLOP/s, 32 GiB, 900 GB/s a chip; [book]: 1e11, pod of 32 x 32.
    "v3": Chip(61.5e12, 16 * _GIB, 450e9, 1e11, devices=2, ring=32,
               clock=940e6),
    # [v4]: 275 TFLOP/s, 32 GiB, 1,200 GB/s; [book]: 4.5e10, rings of 4n.
    "v4": Chip(275e12, 32 * _GIB, 1200e9, 4.5e10, ring_multiple=4),
    # [v5e]: 197 TFLOP/s, 16 GB, 819 GB/s; [book]: 4.5e10. Four units of 128
    # give the peak at 1.5 GHz.
    "v5e": Chip(197e12, 16 * _GIB, 819e9, 4.5e10, clock=1.5e9),
    # [v5p]: 459 TFLOP/s, 95 GB, 2,765 GB/s; [book]: 9e10, rings of 4n.
    "v5p": Chip(459e12, 95 * _GIB, 2765e9, 9e10, ring_multiple=4),
    # [v6e]: 918 TFLOP/s, 32 GB, 1,600 GB/s; [book]: 9e10, units of 256.
    "v6e": Chip(918e12, 32 * _GIB, 1600e9, 9e10, mxu=256),
}


def find(name: str) -> Chip:
  """Returns the chip of a name such as `v5e`.

  Raises:
    errors.UserError: no figures of it.
  """
  if name not in CHIPS:
    raise errors.UserError(
        f"--topology: no figures of chip {name!r}."
        f" {errors.nearest(name, CHIPS)}"
    )
  return CHIPS[name]
