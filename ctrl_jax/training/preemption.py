"""SIGTERM: what a machine gets some seconds before it is taken away."""

import contextlib
import functools
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ctrl_jax import errors
from ctrl_jax.hosts import session as session_lib


class Watch:
  """Notices SIGTERM instead of dying of it, while this context is open.

  With several processes, SIGTERM to one is SIGTERM to all, and they leave at
  one step: see `together`. Outside the main thread, where signals do not
  arrive, only that of another process is noticed.

  A command that has trained is on its way out: from the end of this context on
  another SIGTERM changes nothing there, since what it would ask for is done.
  Elsewhere (a notebook, a program that goes on) it means what it did before.

  Attributes:
    requested: whether SIGTERM has come; with several processes, whether all of
      them know.
  """

  def __init__(self):
    self.requested = False
    self._noticed = False  # By this process.
    self._interrupts = False
    self._old_handler = None
    self._session = session_lib.current()

  def __enter__(self) -> "Watch":
    tell = self._hear
    if threading.current_thread() is threading.main_thread():
      self._old_handler = signal.signal(signal.SIGTERM, self._notice)
      # As if it had come here: it ends what this thread waits for.
      tell = functools.partial(
          signal.pthread_kill, threading.get_ident(), signal.SIGTERM
      )
    if self._session:
      self._session.watcher.open(tell)
    return self

  def __exit__(self, *_) -> None:
    if self._session:
      self._session.watcher.close()
    if self._old_handler is not None:
      joined = session_lib.is_joined()
      signal.signal(signal.SIGTERM, _ignore if joined else self._old_handler)

  @contextlib.contextmanager
  def interrupting(self) -> Iterator[None]:
    """A block that SIGTERM ends at once: a wait, or work that is not needed.

    With several processes it is not: they must compute the same.

    Raises:
      errors.Preempted: SIGTERM comes meanwhile, or has come before.
    """
    with contextlib.nullcontext() if self._session else self._interrupting():
      yield

  def together(
      self, work: Callable[[], Any], where: str, enough: bool = False
  ) -> Any:
    """Does `work` of this process alone; all go on together, or leave.

    SIGTERM ends the work at once. Then no process has begun what comes next,
    which may need all of them: they can leave, all at this place.

    Args:
      work: uses no device of another process; a wait for data, say.
      where: what comes next, for the message about who does not come.
      enough: whether there is to be no more of it.

    Returns:
      What `work` returns; None if any process has had `enough`.

    Raises:
      errors.Preempted: on all processes, if SIGTERM has come to any.
    """
    result, said = None, "enough" if enough else ""
    try:
      with self._interrupting():
        if not enough:
          result = work()
    except errors.Preempted:
      if not self._session:
        raise
    if not self._session:
      return result
    answers = self._session.exchange(
        where, "preempted" if self._noticed else said
    ).values()
    if "preempted" in answers:
      self.requested = True
      raise errors.Preempted
    return None if "enough" in answers else result

  def iterate(self, items: Iterable[Any], where: str) -> Iterator[Any]:
    """Yields `items`, each got together; all processes have as many."""
    items = iter(items)
    while (item := self.together(lambda: next(items, None), where)) is not None:
      yield item

  @contextlib.contextmanager
  def _interrupting(self):
    before = self._interrupts
    try:
      self._interrupts = True
      if self._noticed:
        raise errors.Preempted
      yield
    finally:
      self._interrupts = before

  def _hear(self):
    self._noticed = True

  def _notice(self, *_):
    if self._noticed:
      return  # What follows the first is the way out.
    self._noticed = True
    if self._session:
      self._session.watcher.notice()
    else:
      self.requested = True
    if self._interrupts:
      raise errors.Preempted


def _ignore(*_):
  """Not `SIG_IGN`, which programs that are started then would inherit."""
