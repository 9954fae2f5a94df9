import threading

import jax
import pytest

from ctrl_jax import errors
from ctrl_jax.hosts import link

_LATE = """DEADLINE_EXCEEDED: Barrier timed out. Id: x::0. This usually happens.
# of tasks that reached the barrier: 1/{}.
The first task at the barrier: 0. Some timed out task names:
{}


RPC: /xla.coordination.CoordinationService/Barrier [type.googleapis.com]"""


class Client:
  """JAX's, for two processes of which one is this test."""

  def __init__(self):
    self.values = {}
    self.error = None
    self.came = []

  def key_value_set(self, key, value, allow_overwrite):
    assert allow_overwrite
    self.values[key] = value

  def key_value_dir_get(self, folder):
    assert folder.endswith("/")
    return [(k, v) for k, v in self.values.items() if k.startswith(folder)]

  def key_value_delete(self, key):
    del self.values[key]

  def wait_at_barrier(self, name, milliseconds):
    self.came.append((name, milliseconds, threading.current_thread()))
    if self.error:
      raise self.error


@pytest.fixture
def client(monkeypatch):
  client = Client()
  monkeypatch.setattr(link.private_jax, "client", lambda: client)
  return client


def test_exchanges_are_apart(client):
  own = link.Link(2.5)
  assert own.exchange("a", "hello") == {0: "hello"}
  assert own.exchange("b") == {}
  client.values["ctrl_jax/said/3/7"] = "of 7"
  assert own.exchange("c", "mine") == {0: "mine", 7: "of 7"}
  names = {name for name, _, _ in client.came}
  assert len(names) == 1 and client.came[0][1] == 2500
  # Not the main thread: a signal's handler can run there.
  assert client.came[0][2] is not threading.main_thread()


def test_texts_for_all(client):
  own = link.Link(2.5)
  own.put("board/a", "one")
  own.put("boards/b", "two")
  assert own.read("board") == {"a": "one"}
  own.remove("board/a")
  assert own.read("board") == {}


def test_who_does_not_come(client):
  own = link.Link(2.5)
  client.error = jax.errors.JaxRuntimeError(_LATE.format(2, 1))
  with pytest.raises(errors.MissingProcess, match="^Process 1 of 1 did"):
    own.exchange("step 7")
  client.error = jax.errors.JaxRuntimeError("something else")
  with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
    own.exchange("step 8")


@pytest.mark.parametrize("names, says", [
    ("1", "Process 1"),
    ("1\n12", "Processes 1, 12"),
    ("/job:jax_worker/replica:0/task:3", "Process 3"),
])
def test_missing_processes(names, says):
  error = RuntimeError(_LATE.format(3, names))
  assert link.missing_processes(error) == says
  assert link.missing_processes(RuntimeError("no such file")) is None
