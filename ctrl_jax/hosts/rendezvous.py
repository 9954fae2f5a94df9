"""All processes meet before JAX joins them, and know who is missing if not.

When a process is missing, `jax.distributed.initialize` aborts the ones that are
there, and none says who it was. So they meet first, on the port that JAX takes
over: process 0 listens, each of the others tells it who it is, and all are told
that they are complete, or what is wrong.
"""

import errno
import re
import socket
import time

from ctrl_jax import errors
from ctrl_jax.hosts import cluster as cluster_lib

_HELLO = "ctrl_jax: process {} of {}"
# Process 0's answers; whatever else answers at its address is not it.
_COMPLETE = "ctrl_jax: complete"
_MISSING = "ctrl_jax: missing: "
_WRONG = "ctrl_jax: wrong: "
# For one line from a process that has called: at most, and at least.
_SECONDS_A_LINE = 5.0
_LEAST_SECONDS_A_LINE = 0.5
_BYTES_A_LINE = 4096
_SECONDS_BETWEEN_CALLS = 0.2


def meet(cluster: cluster_lib.Cluster, timeout: float) -> None:
  """Returns when all processes of `cluster` are there.

  Args:
    cluster: of this process.
    timeout: seconds for each process to wait; who comes late sees the whole of
      process 0's time, too.

  Raises:
    errors.MissingProcess: names who is missing.
    errors.UserError: says what two of them disagree about.
  """
  if cluster.index == 0:
    _gather(cluster, time.monotonic() + timeout)
  else:
    _call(cluster, timeout)


def _gather(cluster, deadline):
  """Process 0: collects the others' calls, and answers all of them."""
  there = {}
  server = _listen(cluster.address)
  try:
    with server:
      while len(there) < cluster.count - 1:
        left = deadline - time.monotonic()
        if left <= 0:  # However many strangers still call.
          raise TimeoutError
        server.settimeout(left)
        _accept(server, there, cluster.count, deadline)
    error, answer = None, _COMPLETE
  except TimeoutError:
    error = errors.MissingProcess(_missing(there, cluster))
    answer = _MISSING + str(error)
  except errors.UserError as e:
    error, answer = e, _WRONG + str(e)
  for connection in there.values():
    with connection:
      _send(connection, answer)
  if error:
    raise error


def _listen(address):
  port = int(address.rpartition(":")[2])
  try:
    if socket.has_dualstack_ipv6():
      return socket.create_server(
          ("", port), family=socket.AF_INET6, dualstack_ipv6=True
      )
    return socket.create_server(("", port))
  except OSError as e:
    if e.errno != errno.EADDRINUSE:
      raise
    raise errors.UserError(
        f"Port {port} of this machine is taken, perhaps by another training:"
        f" end it, or set another in {cluster_lib.ADDRESS} for all processes."
    ) from e


def _accept(server, there, count, deadline):
  """Adds the next caller to `there`, unless it is none of the processes.

  Raises:
    TimeoutError: nobody calls.
    errors.UserError: a process of another run, or the same one twice.
  """
  connection, _ = server.accept()
  left = max(deadline - time.monotonic(), _LEAST_SECONDS_A_LINE)
  call = re.fullmatch(_HELLO.format(r"(\d+)", r"(\d+)"),
                      _read(connection, min(left, _SECONDS_A_LINE)))
  if not call:
    connection.close()  # A stranger: a probe of the port, say.
    return
  index, its_count = map(int, call.groups())
  for gone in [i for i, c in there.items() if _has_gone(c)]:
    del there[gone]  # It died waiting, and may come again.
  wrong = ""
  if its_count != count:
    wrong = (
        f"Process 0 expects {count} processes, process {index} {its_count}:"
        f" set {cluster_lib.COUNT} to the same number for all."
    )
  elif index in there:
    wrong = (
        f"Two of {count} processes are number {index}: give each its own"
        f" {cluster_lib.INDEX}."
    )
  if wrong:
    with connection:
      _send(connection, _WRONG + wrong)
    raise errors.UserError(wrong)
  there[index] = connection


def _has_gone(connection):
  """Whether the other side, which says nothing more, has closed."""
  connection.setblocking(False)
  try:
    return connection.recv(1) == b""
  except BlockingIOError:
    return False
  except OSError:
    return True


def _missing(there, cluster):
  lost = [i for i in range(1, cluster.count) if i not in there]
  return (
      f"{cluster_lib.names(lost)} of {cluster.count} did not come: start the"
      f" same command on every machine, each with its {cluster_lib.INDEX} if it"
      f" is set. ({cluster_lib.COUNT}=1 is a process alone.)"
  )


def _call(cluster, timeout):
  """Another process: calls process 0 until it answers."""
  host, _, port = cluster.address.rpartition(":")
  hello = _HELLO.format(cluster.index, cluster.count)
  deadline, reason = time.monotonic() + timeout, "no answer"
  while (left := deadline - time.monotonic()) > 0:
    try:
      with socket.create_connection(
          (host.strip("[]"), int(port)), min(left, _SECONDS_A_LINE)
      ) as connection:
        _send(connection, hello)
        # It has its own time to wait for the rest.
        answer = _read(connection, timeout + _SECONDS_A_LINE)
    except OSError as e:
      answer, reason = "", e.strerror or str(e)
    if answer == _COMPLETE:
      return
    if answer.startswith(_MISSING):
      raise errors.MissingProcess(answer.removeprefix(_MISSING))
    if answer.startswith(_WRONG):
      raise errors.UserError(answer.removeprefix(_WRONG))
    if answer:  # JAX's own service, say, which has taken the port over.
      reason = "what answers is another program, or a run that has begun"
    # An address that is not known yet, or the port of a run that is ending.
    time.sleep(_SECONDS_BETWEEN_CALLS)
  raise errors.MissingProcess(
      f"Process 0 of {cluster.count} did not come to {cluster.address}"
      f" ({reason}). Start the same command on every machine, and check"
      f" {cluster_lib.ADDRESS} if it is set."
  )


def _send(connection, line):
  try:
    connection.sendall(f"{line}\n".encode())
  except OSError:
    pass  # Who does not listen any more will notice by itself.


def _read(connection, timeout) -> str:
  """One line; "" when none comes, however slowly bytes do."""
  deadline, data = time.monotonic() + timeout, b""
  try:
    while b"\n" not in data and len(data) < _BYTES_A_LINE:
      connection.settimeout(max(deadline - time.monotonic(), 1e-3))
      got = connection.recv(_BYTES_A_LINE)
      if not got:
        break
      data += got
      if time.monotonic() > deadline:
        return ""
  except OSError:
    return ""
  return data.partition(b"\n")[0].decode("utf-8", errors="replace").strip()
