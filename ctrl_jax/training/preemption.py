"""SIGTERM: what a machine gets some seconds before it is taken away."""

import contextlib
import signal
import threading
from collections.abc import Iterator

import jax

from ctrl_jax import errors


class Watch:
  """Notices SIGTERM instead of dying of it, while this context is open.

  Does nothing outside the main thread, where signals do not arrive.
  """

  def __init__(self):
    self.requested = False  # Whether SIGTERM has come.
    self._interrupts = False
    self._old_handler = None

  def __enter__(self) -> "Watch":
    if threading.current_thread() is threading.main_thread():
      self._old_handler = signal.signal(signal.SIGTERM, self._notice)
    return self

  def __exit__(self, *_) -> None:
    if self._old_handler is not None:
      signal.signal(signal.SIGTERM, self._old_handler)

  @contextlib.contextmanager
  def interrupting(self) -> Iterator[None]:
    """A block that SIGTERM ends at once: a wait, or work that is not needed.

    With several processes it is not: they leave together, between steps.

    Raises:
      errors.Preempted: SIGTERM comes meanwhile, or has come before.
    """
    try:
      self._interrupts = jax.process_count() == 1
      if self.requested and self._interrupts:
        raise errors.Preempted
      yield
    finally:
      self._interrupts = False

  def _notice(self, *_):
    self.requested = True
    if self._interrupts:
      self._interrupts = False  # Once: what follows is the way out.
      raise errors.Preempted
