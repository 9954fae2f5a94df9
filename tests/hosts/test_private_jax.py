"""JAX has what is private of it where it is looked up.

These fail when a new JAX has moved it; `private_jax` alone is to follow then.
"""

import inspect

import host_runs
import jax
import pytest
from jaxlib import _jax

from ctrl_jax import errors
from ctrl_jax.hosts import private_jax


def test_jax_finds_processes_by_what_it_is_given():
  """Without it every start on an accelerator asks for JAX_NUM_PROCESSES."""
  found = private_jax._look_up(
      "clusters", "ClusterEnv", "auto_detect_unset_distributed_params", mend=""
  )
  assert list(inspect.signature(found).parameters) == [
      "coordinator_address", "num_processes", "process_id", "local_device_ids",
      "cluster_detection_method", "initialization_timeout",
  ]
  assert tuple(private_jax.detect("a:1", 2, 1, 1)) == ("a:1", 2, 1, None)


def test_jax_has_no_client_before_processes_are_joined():
  assert private_jax.client() is None and not jax.distributed.is_initialized()


@pytest.fixture
def client():
  """Of a service for one process."""
  address = f"127.0.0.1:{host_runs.free_port()}"
  service = _jax.get_distributed_runtime_service(address, 1)
  client = _jax.get_distributed_runtime_client(address, 0)
  client.connect()
  yield client
  client.shutdown()
  service.shutdown()


def test_a_client_does_what_a_link_calls(client):
  """Without it several processes neither wait for each other nor end."""
  client.key_value_set("f/a", "one", allow_overwrite=True)
  client.key_value_set("f/a", "two", allow_overwrite=True)
  assert client.key_value_dir_get("f/") == [("f/a", "two")]
  for _ in range(2):  # One name serves for all barriers.
    client.wait_at_barrier("b", 5000)
  client.key_value_delete("f/a")
  assert client.key_value_dir_get("f/") == []


@pytest.mark.parametrize("has_service", [True, False])
def test_the_service_answers_those_who_leave_before_it_ends(
    monkeypatch, has_service
):
  """Else JAX aborts who has not had the answer: exit code -6, not its own."""
  did = []

  class Part:
    def __init__(self, name):
      self.shutdown = lambda: did.append(name)

  state = private_jax._look_up("distributed", "global_state", mend="")
  assert state.client is None and state.service is None
  monkeypatch.setattr(state, "client", Part("client"))
  if has_service:
    monkeypatch.setattr(state, "service", Part("service"))
  monkeypatch.setattr(private_jax.time, "sleep", lambda x: did.append("waits"))
  private_jax.leave()
  private_jax.leave()  # As JAX does where a program ends.
  assert did == ["client", *["waits", "service"] * has_service]
  assert not jax.distributed.is_initialized()


@pytest.mark.parametrize("call, says", [
    (lambda: private_jax.detect(None, None, None, 1),
     "has no jax._src.clusters.ClusterEnv.auto_.*Set JAX_NUM_PROCESSES=1 for"),
    (private_jax.client,
     "has no jax._src.distributed.global_state.client any more.*another ver"),
    (private_jax.leave, "has no jax._src.distributed.global_state any more"),
])
@pytest.mark.parametrize("gone", [ImportError, AttributeError])
def test_a_jax_that_has_moved_them_is_told_in_a_line(
    monkeypatch, call, says, gone
):
  def look(name):
    raise gone(name)

  monkeypatch.setattr(private_jax.importlib, "import_module", look)
  with pytest.raises(errors.UserError, match=says) as e:
    call()
  assert jax.__version__ in str(e.value) and "\n" not in str(e.value)
