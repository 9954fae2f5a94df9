"""What the processes tell each other, by JAX's coordination service.

On the machines' network, beside the devices: it works while they compute, it
waits a bounded time, and it names who did not come.
"""

import re
from concurrent import futures

import jax

from ctrl_jax import errors
from ctrl_jax.hosts import cluster, private_jax

_FOLDER = "ctrl_jax/"
_BARRIER = "ctrl_jax"


class Link:
  """The other processes; after `jax.distributed.initialize`.

  Args:
    timeout: seconds to wait for the last of them.

  Attributes:
    index: of this process.
    count: of all.
  """

  def __init__(self, timeout: float):
    self.index = jax.process_index()
    self.count = jax.process_count()
    self._timeout = timeout
    self._client = private_jax.client()
    self._number = 0  # Of exchanges: all processes make the same ones.
    self._thread = futures.ThreadPoolExecutor(1, "ctrl_jax-exchange")

  def exchange(self, where: str, text: str = "") -> dict[int, str]:
    """Waits for all processes, each of which may say something.

    A signal's handler runs meanwhile: the waiting is a thread's.

    Args:
      where: what all of them are to come to, for the message.
      text: what this one says; "" is nothing.

    Returns:
      process -> what it says, the same for all processes; only those that do.

    Raises:
      errors.MissingProcess: not all came in time; names who did not.
    """
    self._number += 1
    work = self._thread.submit(self._exchange, f"said/{self._number}", text)
    try:
      return {int(key): said for key, said in work.result().items()}
    except jax.errors.JaxRuntimeError as e:
      missing = missing_processes(e)
      if missing is None:
        raise
      raise errors.MissingProcess(
          f"{missing} of {self.count} did not come to {where} within"
          f" {self._timeout:g} seconds: look at its log; what hangs may be its"
          " data, its disk or the network. --process-timeout waits longer."
      ) from e

  def _exchange(self, folder, text):
    if text:
      self.put(f"{folder}/{self.index}", text)
    # One name for all: the service remembers every name.
    self._client.wait_at_barrier(_BARRIER, round(self._timeout * 1000))
    return self.read(folder)

  def put(self, name: str, text: str) -> None:
    """Leaves a text where all processes can read it."""
    self._client.key_value_set(_FOLDER + name, text, allow_overwrite=True)

  def remove(self, name: str) -> None:
    """Takes a text back."""
    self._client.key_value_delete(_FOLDER + name)

  def read(self, folder: str) -> dict[str, str]:
    """Returns name -> text of all that were put into `folder`."""
    found = self._client.key_value_dir_get(f"{_FOLDER}{folder}/")
    return {key.rpartition("/")[2]: text for key, text in found}

  def leave(self) -> None:
    """Parts from the others, who all do so now; nothing is said any more."""
    private_jax.leave()


def missing_processes(e: Exception) -> str | None:
  """Returns who did not come to a barrier, of JAX's error; None of another.

  Example:

  >>> missing_processes(RuntimeError('''DEADLINE_EXCEEDED: Barrier timed out.
  ... # of tasks that reached the barrier: 1/3.
  ... The first task at the barrier: 0. Some timed out task names:
  ... 1
  ... 2
  ...
  ... RPC: ...'''))
  'Processes 1, 2'
  """
  if "Barrier timed out" not in str(e):
    return None
  found = re.findall(r"^(?:.*/task:)?(\d+)$", str(e), re.MULTILINE)
  return cluster.names(map(int, found))
