"""What several processes need of JAX that it keeps private.

`jax.distributed.initialize` finds out which processes there are, and waits for
them: no public function does the first alone. The service that it starts holds
texts and barriers, which Orbax and others use as well: no public name leads to
it. Both are looked up here, when they are needed, so that a JAX that has moved
them says so in a line. `tests/hosts/test_private_jax.py` fails then.
"""

import importlib
import time
from typing import Any

import jax

from ctrl_jax import errors

# For the service's answers to those who leave to be on their way.
_SECONDS_TO_ANSWER = 1.0
_SEVERAL = (
    "Several processes need another version; JAX_NUM_PROCESSES=1 is a process"
    " alone."
)


def detect(
    address: str | None, count: int | None, index: int | None, timeout: int
) -> tuple[str | None, int | None, int | None, list[int] | None]:
  """Fills in what is None from JAX's knowledge of clusters.

  Args:
    address: "HOST:PORT" of process 0.
    count: of the processes.
    index: this one's number.
    timeout: seconds to wait for the name of process 0's machine to be known.

  Returns:
    Address, count and index, None where JAX does not know, and the numbers of
    this process's devices, None for all of the machine's.

  Raises:
    errors.UserError: this JAX has it elsewhere.
    Exception: each kind of cluster raises its own.
  """
  find = _look_up(
      "clusters", "ClusterEnv", "auto_detect_unset_distributed_params",
      mend="Set JAX_NUM_PROCESSES=1 for a process alone; for several it,"
      " JAX_COORDINATOR_ADDRESS and JAX_PROCESS_ID.",
  )
  return find(address, count, index, None, None, timeout)


def client() -> Any:
  """Returns the way to the coordination service; None when there is none.

  Raises:
    errors.UserError: this JAX has it elsewhere.
  """
  return _look_up(
      "distributed", "global_state", "client",
      mend=_SEVERAL,
  )


def leave() -> None:
  """Parts from the others, who all do so now: jax.distributed.shutdown.

  That ends the service, which is process 0's, at once. The others' word that
  they leave may be unanswered then, and JAX aborts whom it does not answer.

  Raises:
    errors.UserError: this JAX has it elsewhere.
    jax.errors.JaxRuntimeError: the others do not come.
  """
  state = _look_up("distributed", "global_state", mend=_SEVERAL)
  if state.client is not None:
    state.client.shutdown()
    state.client = None
    if state.service is not None:
      time.sleep(_SECONDS_TO_ANSWER)
  jax.distributed.shutdown()


def _look_up(module, *names, mend):
  try:
    found = importlib.import_module(f"jax._src.{module}")
    for name in names:
      found = getattr(found, name)
  except (ImportError, AttributeError) as e:
    raise errors.UserError(
        f"JAX {jax.__version__} has no jax._src.{module}.{'.'.join(names)} any"
        f" more. {mend}"
    ) from e
  return found
