import warnings

import pytest

from ctrl_jax import errors
from ctrl_jax.hosts import cluster

ALL = {
    "JAX_COORDINATOR_ADDRESS": "10.0.0.1:8476",
    "JAX_NUM_PROCESSES": "4",
    "JAX_PROCESS_ID": "0",
}


@pytest.fixture
def detects(monkeypatch):
  """Sets what JAX finds out; returns what it was asked."""
  asked = []

  def set_found(*found):
    def detect(*given):
      asked.append(given)
      if isinstance(found[0], Exception):
        raise found[0]
      # As JAX does: what is given stays.
      who = (*given[:3], None)  # The last is how long to wait.
      return [g if g is not None else f for g, f in zip(who, found)]

    monkeypatch.setattr(cluster.private_jax, "detect", detect)
    return asked

  return set_found


def test_variables_say_all(detects):
  asked = detects("other:1", 9, 9, None)
  assert cluster.find(ALL) == cluster.Cluster("10.0.0.1:8476", 4, 0)
  assert not asked


@pytest.mark.parametrize("host", ["[::1]", "a.b.", "m\u00fcnchen.de"])
def test_hosts_that_can_be_asked_for(detects, host):
  detects(None, None, None, None)
  address = f"{host}:8476"
  assert cluster.find(ALL | {cluster.ADDRESS: address}).address == address


def test_a_process_alone(detects):
  asked = detects(None, None, None, None)
  assert cluster.find({}) is None and len(asked) == 1
  # A slice of one machine; and a process alone on one of many.
  detects("10.0.0.1:8482", 1, 0, None)
  assert cluster.find({}) is None
  asked = detects("10.0.0.1:8482", 4, 2, None)
  del asked[:]
  assert cluster.find({"JAX_NUM_PROCESSES": "1"}) is None and not asked


def test_a_cpu_is_no_cluster_unless_told(detects):
  asked = detects("10.0.0.1:8482", 4, 2, None)
  assert cluster.find({"JAX_PLATFORMS": "cpu"}) is None
  assert cluster.find(ALL | {"JAX_PLATFORMS": "cpu"}).count == 4 and not asked


def test_what_jax_finds_out(detects):
  detects("10.0.0.1:8482", 4, 2, None)
  assert cluster.find({}) == cluster.Cluster("10.0.0.1:8482", 4, 2)
  changed = cluster.find({"JAX_COORDINATOR_ADDRESS": "b:1"})
  assert changed == cluster.Cluster("b:1", 4, 2)
  detects("n1:61000", 8, 3, [1])  # Of Slurm, with a GPU a process.
  assert cluster.find({}).local_device_ids == (1,)


def test_slurm_without_a_network(monkeypatch):
  """JAX's own detection, from the variables that Slurm sets."""
  for name, value in dict(
      JOB_ID=7, STEP_NODELIST="node[3-4]", NTASKS=2, PROCID=1, LOCALID=0
  ).items():
    monkeypatch.setenv(f"SLURM_{name}", str(value))
  found = cluster.find({})
  assert (found.count, found.index) == (2, 1)
  assert found.address.startswith("node3:")


@pytest.mark.parametrize("change, says", [
    ({"JAX_PROCESS_ID": ""}, "JAX_PROCESS_ID must be set, too"),
    (
        {"JAX_COORDINATOR_ADDRESS": "", "JAX_PROCESS_ID": ""},
        "JAX_COORDINATOR_ADDRESS and JAX_PROCESS_ID must be set",
    ),
    ({"JAX_PROCESS_ID": "4"}, "JAX_PROCESS_ID=4 of JAX_NUM_PROCESSES=4"),
    ({"JAX_PROCESS_ID": "-1"}, "a number from 0 on"),
    ({"JAX_NUM_PROCESSES": "0"}, "a number from 1 on"),
    ({"JAX_NUM_PROCESSES": "two"}, "JAX_NUM_PROCESSES='two'"),
    ({"JAX_COORDINATOR_ADDRESS": "here"}, "give HOST:PORT"),
    ({"JAX_COORDINATOR_ADDRESS": "here:70000"}, "give HOST:PORT"),
    ({"JAX_COORDINATOR_ADDRESS": ":1"}, "give HOST:PORT"),
    ({"JAX_COORDINATOR_ADDRESS": ".internal:1234"}, "give HOST:PORT"),
    ({"JAX_COORDINATOR_ADDRESS": "a..b:1"}, "give HOST:PORT"),
    ({"JAX_COORDINATOR_ADDRESS": f"{'a' * 64}:1"}, "give HOST:PORT"),
])
def test_bad_variables(detects, change, says):
  detects(None, None, None, None)
  with pytest.raises(errors.UserError, match=says):
    cluster.find(ALL | change)


def test_a_cluster_that_jax_cannot_read(detects):
  detects(RuntimeError("no\npermission"))
  with pytest.raises(errors.UserError, match="RuntimeError: no perm.*=1 is a"):
    cluster.find({})


def test_what_jax_warns_of_is_said_in_a_line(detects, monkeypatch, caplog):
  detects(None, None, None, None)

  def detect(*given):
    warnings.warn("Kubernetes,\nbut no package", stacklevel=1)
    return *given[:3], None

  monkeypatch.setattr(cluster.private_jax, "detect", detect)
  monkeypatch.setattr(cluster.logging.getLogger("ctrl_jax"), "propagate", True)
  assert cluster.find({}) is None
  assert "Kubernetes, but no package" in caplog.text
