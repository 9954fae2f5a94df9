"""Slices of TPUs by name, and virtual devices, without the hardware."""

import dataclasses
import importlib.util
import os
import re
from typing import Any

from ctrl_jax import errors
from ctrl_jax.planning import chips

_EXAMPLES = "v3:8x16, v5e:4x4, v5e:1x1, v6e:2x4, gpu:8, cpu:8"


@dataclasses.dataclass(frozen=True)
class Topology:
  """A named slice.

  Attributes:
    name: as given, `v3:8x16`.
    platform: "tpu", "gpu" or "cpu": whose choices a run would make.
    sizes: chips along each axis of the slice.
    devices: JAX's devices, to compile for; on TPU without a client. Of "gpu"
      they are virtual CPU devices, for which the same program is cut alike.
    chip: its figures; None of virtual devices.
  """

  name: str
  platform: str
  sizes: tuple[int, ...]
  devices: tuple[Any, ...]
  chip: chips.Chip | None


def prepare_environment() -> None:
  """Lets the TPU compiler run on a machine without TPUs; before JAX starts.

  Nothing is computed: what JAX itself does stays on the CPU, even where there
  is a TPU, which another process may be using.
  """
  os.environ["JAX_PLATFORMS"] = "cpu"
  # The compiler takes a lock, asks a cloud machine's metadata, and complains
  # when nothing says which machine this is, though the slice is named later.
  for name, value in (
      ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
      ("TPU_SKIP_MDS_QUERY", "1"),
      ("TPU_ACCELERATOR_TYPE", "v3-8"),
      ("TPU_WORKER_HOSTNAMES", "localhost"),
  ):
    os.environ.setdefault(name, value)


def find(name: str) -> Topology:
  """Returns the slice that `name` names.

  Args:
    name: `CHIP:AxB` or `CHIP:AxBxC` in chips, or `gpu:N` or `cpu:N` in devices.

  Raises:
    errors.UserError: no such slice, or no compiler for it.
  """
  match = re.fullmatch(r"(\w+):(\d+(?:x\d+)*)", name)
  if match is None:
    raise errors.UserError(
        f"--topology={name!r} is not of the form CHIP:AxB: {_EXAMPLES}."
    )
  sizes = tuple(map(int, match[2].split("x")))
  if match[1] in ("cpu", "gpu"):
    return Topology(name, match[1], sizes, _cpu_devices(match[1], sizes), None)
  chip = chips.find(match[1])
  return Topology(name, "tpu", sizes, _tpu_devices(name, sizes), chip)


def _cpu_devices(platform: str, sizes: tuple[int, ...]) -> tuple[Any, ...]:
  import jax

  if len(sizes) != 1 or sizes[0] < 1:
    raise errors.UserError(
        f"--topology={platform}:N takes one number of devices."
    )
  try:
    jax.config.update("jax_num_cpu_devices", sizes[0])
  except RuntimeError:  # JAX has started: with what it has.
    pass
  devices = jax.devices("cpu")
  if len(devices) < sizes[0]:
    raise errors.UserError(
        f"--topology={platform}:{sizes[0]}: JAX has started with"
        f" {len(devices)} CPU devices; plan in a process of its own."
    )
  return tuple(devices[: sizes[0]])


def _tpu_devices(name: str, sizes: tuple[int, ...]) -> tuple[Any, ...]:
  if importlib.util.find_spec("libtpu") is None:
    raise errors.UserError(
        f"--topology={name} needs the TPU compiler:"
        ' pip install -e ".[tpu]". (--topology=cpu:8 does without.)'
    )
  from jax.experimental import topologies

  # A slice smaller than a host must say so.
  options = {}
  if set(sizes) == {1}:
    options["chips_per_host_bounds"] = (1, 1, 1)
  if name.startswith("v4:"):
    options["chip_config_name"] = "megacore"
  try:
    description = topologies.get_topology_desc(
        platform="tpu", topology_name=name, **options
    )
  except Exception as e:  # What it raises has no common type.
    reason = " ".join(str(e).split())[:120]
    raise errors.UserError(
        f"--topology={name}: the TPU compiler knows no such slice ({reason})."
        f" Known, for instance: {_EXAMPLES}."
    ) from e
  return tuple(description.devices)


def is_ring(topology: Topology, axis: int) -> bool:
  """Whether the chips along an axis of the slice are closed to a ring."""
  chip, size = topology.chip, topology.sizes[axis]
  if chip.ring_multiple:
    return min(topology.sizes) >= 4 and size % chip.ring_multiple == 0
  return size >= chip.ring
