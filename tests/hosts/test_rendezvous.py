"""Processes that meet, as threads of this one."""

import contextlib
import socket
import time
from concurrent import futures

import host_runs
from jaxlib import _jax

from ctrl_jax import errors
from ctrl_jax.hosts import cluster, rendezvous


def meet(count, *indices, timeout=20.0, counts=None, port=None):
  """What each of `indices` comes back with: None, or its error."""
  port = port or host_runs.free_port()

  def one(index, its_count):
    own = cluster.Cluster(f"127.0.0.1:{port}", its_count, index)
    try:
      rendezvous.meet(own, timeout)
    except errors.UserError as e:
      assert e.exit_code == (1 if "did not come" in str(e) else 2)
      return str(e)

  with futures.ThreadPoolExecutor(len(indices)) as pool:
    work = [
        pool.submit(one, index, (counts or {}).get(index, count))
        for index in indices
    ]
    return [w.result(60) for w in work]


def test_all_come():
  port = host_runs.free_port()
  assert meet(3, 2, 0, 1, port=port) == [None] * 3
  # The port is free again: for JAX, and for the next start.
  assert meet(2, 0, 1, port=port) == [None] * 2


def test_everyone_is_told_who_is_missing():
  begin = time.monotonic()
  said = meet(4, 0, 2, timeout=1.0)
  assert time.monotonic() - begin < 10
  assert said[0] == said[1]
  assert said[0].startswith("Processes 1, 3 of 4 did not come: start the same")
  assert meet(2, 0, timeout=0.3)[0].startswith("Process 1 of 2 did not come")


def test_process_0_is_missing():
  (said,) = meet(2, 1, timeout=1.0)
  assert said.startswith("Process 0 of 2 did not come to 127.0.0.1:")
  assert "(Connection refused)" in said


def test_a_run_that_has_begun_is_no_mistake_of_who_comes_again():
  """JAX's service then answers at the port, in a protocol of its own."""
  port = host_runs.free_port()
  service = _jax.get_distributed_runtime_service(f"127.0.0.1:{port}", 2)
  try:
    (said,) = meet(2, 1, timeout=1.0, port=port)
  finally:
    service.shutdown()
  assert said.startswith("Process 0 of 2 did not come to 127.0.0.1:")
  assert "(what answers is another program, or a run that has begun)" in said


def test_two_with_one_number():
  said = meet(3, 0, 1, 1)
  assert {s.split(":")[0] for s in said} == {
      "Two of 3 processes are number 1"
  }


def test_they_disagree_about_how_many_they_are():
  said = meet(2, 0, 1, counts={1: 3})
  assert said[0] == said[1]
  assert "Process 0 expects 2 processes, process 1 3" in said[0]


def connect(port):
  """A stranger's connection to process 0, as soon as it listens."""
  while True:
    try:
      return socket.create_connection(("127.0.0.1", port), 1)
    except OSError:
      time.sleep(0.02)


def test_strangers_and_those_that_begin_again():
  port = host_runs.free_port()
  with futures.ThreadPoolExecutor(1) as pool:
    first = pool.submit(meet, 3, 0, port=port)
    for says in (b"GET / HTTP/1.1\r\n", b"ctrl_jax: process 1 of 3\n", b""):
      with connect(port) as connection:
        connection.sendall(says)
        connection.shutdown(socket.SHUT_WR)
    assert meet(3, 2, 1, port=port) == [None, None]
    assert first.result(60) == [None]


def drip(connection, end):
  """Says a byte now and then, until the other side has gone."""
  with connection, contextlib.suppress(OSError):
    while time.monotonic() < end:
      connection.sendall(b"x")
      time.sleep(0.05)


def test_a_stranger_that_drips_holds_process_0_no_longer():
  port, end = host_runs.free_port(), time.monotonic() + 10
  with futures.ThreadPoolExecutor(1) as pool:
    first = pool.submit(meet, 2, 0, timeout=1.0, port=port)
    drip(connect(port), end)
    assert first.result(60)[0].startswith("Process 1 of 2 did not come")
  assert time.monotonic() < end - 5


def test_a_stranger_that_drips_holds_the_others_no_longer(monkeypatch):
  monkeypatch.setattr(rendezvous, "_SECONDS_A_LINE", 0.3)
  end = time.monotonic() + 10
  with (
      futures.ThreadPoolExecutor(1) as pool,
      socket.create_server(("127.0.0.1", 0)) as server,
  ):
    other = pool.submit(
        meet, 2, 1, timeout=0.5, port=server.getsockname()[1]
    )
    drip(server.accept()[0], end)
    assert other.result(60)[0].startswith("Process 0 of 2 did not come")
  assert time.monotonic() < end - 5


def test_the_port_is_taken():
  with socket.create_server(("", 0)) as other:
    port = other.getsockname()[1]
    (said,) = meet(2, 0, port=port)
  assert said.startswith(f"Port {port} of this machine is taken")
