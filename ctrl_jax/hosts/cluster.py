"""Which processes there are: what this one was told, or what JAX finds out.

The variables JAX_COORDINATOR_ADDRESS (HOST:PORT of process 0),
JAX_NUM_PROCESSES and JAX_PROCESS_ID come first; JAX_NUM_PROCESSES=1 is a
process alone, wherever it runs. What they leave open JAX knows on a slice of
TPUs (Cloud TPU VMs, GKE) and under Slurm, Open MPI and Kubernetes. Anywhere
else, and on a CPU (JAX_PLATFORMS=cpu), there is one process, and no network is
asked.
"""

import dataclasses
import logging
import os
import warnings
from collections.abc import Iterable, Mapping

from ctrl_jax import errors
from ctrl_jax.hosts import private_jax

ADDRESS = "JAX_COORDINATOR_ADDRESS"
COUNT = "JAX_NUM_PROCESSES"
INDEX = "JAX_PROCESS_ID"
_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Cluster:
  """Two processes or more, and which of them this is.

  Attributes:
    address: "HOST:PORT" at which process 0 listens.
    count: of the processes.
    index: this one's number, from 0.
    local_device_ids: the devices of this machine that are this process's; None
      for all. Of Slurm and Open MPI, which run a process a GPU.
  """

  address: str
  count: int
  index: int
  local_device_ids: tuple[int, ...] | None = None


def names(indices: Iterable[int]) -> str:
  """Returns processes as the subject of a message.

  Example:

  >>> names([1]), names([1, 3])
  ('Process 1', 'Processes 1, 3')
  """
  indices = list(indices)
  plural = "es" if len(indices) > 1 else ""
  return f"Process{plural} {', '.join(map(str, indices))}"


def find(
    environ: Mapping[str, str] = os.environ, timeout: float = 300.0
) -> Cluster | None:
  """Returns the processes of this run; None for one alone.

  Args:
    environ: the variables.
    timeout: seconds to wait for the name of process 0's machine to be known.

  Raises:
    errors.UserError: a variable without those that it needs, or a bad value.
  """
  address = environ.get(ADDRESS) or None
  count, index = _number(environ, COUNT, 1), _number(environ, INDEX, 0)
  if count == 1:
    return None
  found, local = [address, count, index], None
  if None in found and environ.get("JAX_PLATFORMS") != "cpu":
    *found, local = _detect(*found, timeout)
  if found == [None] * 3 or found[1] == 1:
    return None
  missing = [n for n, x in zip((ADDRESS, COUNT, INDEX), found) if x is None]
  if missing:
    raise errors.UserError(
        f"{' and '.join(missing)} must be set, too: a run of several processes"
        f" needs {ADDRESS} (HOST:PORT of process 0), {COUNT} and, another for"
        f" each, {INDEX}."
    )
  address, count, index = found
  if index >= count:
    raise errors.UserError(
        f"{INDEX}={index} of {COUNT}={count}: number them from 0 on."
    )
  host, _, port = address.rpartition(":")
  if (
      not _is_host(host) or not port.isdecimal()
      or not 0 < int(port) < 2**16
  ):
    raise errors.UserError(
        f"{ADDRESS}={address!r}: give HOST:PORT of process 0, a free port."
    )
  return Cluster(address, count, index, local and tuple(local))


def _is_host(text):
  """Whether the network can be asked for such a name."""
  try:
    return bool(text.encode("idna"))
  except UnicodeError:  # Of an empty part, or one over 63 characters.
    return False


def _number(environ, name, least):
  text = environ.get(name)
  if not text:
    return None
  if not text.isdecimal() or int(text) < least:
    raise errors.UserError(f"{name}={text!r}: give a number from {least} on.")
  return int(text)


def _detect(address, count, index, timeout):
  """Fills in what is None from JAX's knowledge of clusters, if it has any."""
  try:
    with warnings.catch_warnings(record=True) as said:
      warnings.simplefilter("always")
      found = private_jax.detect(address, count, index, int(timeout))
  except errors.UserError:
    raise
  except Exception as e:  # Each kind of cluster raises its own.
    raise errors.UserError(
        f"This looks like a cluster, but JAX cannot tell its processes"
        f" ({type(e).__name__}: {errors.one_line(e)[:200]}). Set {ADDRESS},"
        f" {COUNT} and {INDEX}; {COUNT}=1 is a process alone."
    ) from e
  for warning in said:  # Of a cluster that lacks a package to tell.
    _LOG.warning("%s", " ".join(str(warning.message).split()))
  return found
