"""The processes of a run, from the first to the last thing they do together."""

import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator

import jax
import orbax.checkpoint  # noqa: F401  Defines a flag.
from absl import flags

from ctrl_jax import errors
from ctrl_jax.hosts import cluster as cluster_lib
from ctrl_jax.hosts import link as link_lib
from ctrl_jax.hosts import rendezvous
from ctrl_jax.hosts import watcher as watcher_lib

_LOG = logging.getLogger(__name__)
# Orbax's barriers by the coordination service: bounded, and beside the devices.
_ORBAX_FLAG = "experimental_orbax_use_distributed_barrier"
_current = None
_is_joined = False


class Session(link_lib.Link):
  """Several processes, joined.

  Attributes:
    watcher: hears of errors and preemptions of the others.
  """

  def __init__(self, timeout: float):
    super().__init__(timeout)
    self.watcher = watcher_lib.Watcher(self)


def current() -> Session | None:
  """Returns the processes that are joined; None for a process alone.

  Raises:
    errors.UserError: JAX knows of several, which were not joined by `joined`.
  """
  if _current is None and jax.process_count() > 1:
    raise errors.UserError(
        f"There are {jax.process_count()} processes: instead of calling"
        " jax.distributed.initialize, train inside `with"
        " ctrl_jax.hosts.session.joined():`."
    )
  return _current


def is_main() -> bool:
  """Whether this process writes the files: number 0 does, or one alone."""
  return jax.process_index() == 0


def exchange(where: str, text: str = "") -> dict[int, str]:
  """Waits for all processes, see `Link.exchange`; one alone does not wait."""
  session = current()
  if session is None:
    return {0: text} if text else {}
  return session.exchange(where, text)


def is_joined() -> bool:
  """Whether this is within `joined`: a command, not a longer program."""
  return _is_joined


@contextlib.contextmanager
def joined(timeout: float = 600.0) -> Iterator[None]:
  """Joins the processes of this run, if it has several; before JAX is used.

  All leave together. An error in one of them ends all: the others print it in
  one line, and exit with its code. Process 0 alone logs what is no warning.

  Args:
    timeout: seconds that processes wait for each other, here and in `exchange`.

  Raises:
    errors.UserError: a process is missing, or they disagree about their number.
  """
  global _is_joined
  _is_joined = True
  try:
    with _several(timeout):
      yield
  finally:
    _is_joined = False


@contextlib.contextmanager
def _several(timeout):
  """Joins the processes if there are several."""
  cluster = cluster_lib.find(timeout=timeout)
  if cluster is None:
    yield
    return
  rendezvous.meet(cluster, timeout)
  _initialize(cluster, timeout)
  with _open(timeout) as session:
    try:
      yield
    except errors.Preempted:
      # It may come again, of the others' machines.
      _on_sigterm(signal.SIG_IGN)
      _leave(session)
      raise
    except BaseException as e:
      _fail(session, e)
      raise
    else:
      _leave(session)


def _initialize(cluster, timeout):
  # Its handler of SIGTERM would take the place of ours.
  jax.config.update("jax_enable_preemption_service", False)
  if _ORBAX_FLAG in flags.FLAGS:
    flags.FLAGS[_ORBAX_FLAG].value = True
  jax.distributed.initialize(
      cluster.address, cluster.count, cluster.index, cluster.local_device_ids,
      cluster_detection_method="deactivate",
      initialization_timeout=int(timeout) + 1, shutdown_timeout_seconds=60,
  )


@contextlib.contextmanager
def _open(timeout):
  global _current
  logger = logging.getLogger("ctrl_jax")
  level = logger.level
  _current = session = Session(timeout)
  _LOG.info(
      "Process %d of %d, with %d of %d devices.", session.index, session.count,
      jax.local_device_count(), jax.device_count(),
  )
  if session.index:
    logger.setLevel(max(level, logging.WARNING))
  # Where no training notices it; the others would wait for this process.
  _on_sigterm(lambda *_: sys.exit(128 + signal.SIGTERM))
  try:
    yield session
  finally:
    logger.setLevel(level)
    _current = None


def _on_sigterm(handler):
  if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGTERM, handler)


def _leave(session):
  """Without an error: all together."""
  try:
    session.exchange("the end")
  except BaseException as e:
    _fail(session, e)
    raise
  session.watcher.stop()
  session.leave()


def _fail(session, e):
  """With an error, which the others are told of.

  Raises:
    errors.MissingProcess: it is that another process is gone.
  """
  if isinstance(e, (errors.UserError, OSError)):
    line = errors.one_line(e)
  elif isinstance(e, SystemExit):
    line = "Stopped by SIGTERM outside of training."
  else:
    line = f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
  code = errors.exit_code(e)
  missing = session.watcher.fail(line, code)
  if missing:
    # JAX's client would wait for who is gone, and abort this process then.
    atexit.register(_exit, code)
  if missing and isinstance(e, jax.errors.JaxRuntimeError):
    raise errors.MissingProcess(
        f"{cluster_lib.names(missing)} of {session.count} went in the middle of"
        f" a computation: look at its log. ({line})"
    ) from e


def _exit(code):
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(code)
