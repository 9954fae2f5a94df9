"""A thread that hears of what ends a run elsewhere: an error, a preemption.

The main thread may be waiting for the devices, which wait for a process that
has failed: it would never know.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable

import jax

from ctrl_jax.hosts import link as link_lib

_BOARD = "board"
_SECONDS_BETWEEN_LOOKS = 0.5
# For the others to hear that this process ends.
_SECONDS_TO_SAY = 20.0


class Watcher:
  """Looks twice a second at what the other processes put down.

  An error of another process ends this one: it prints that error in one line,
  and exits with that process's code.

  Args:
    link: to the other processes.
  """

  def __init__(self, link: link_lib.Link):
    self._link = link
    self._lock = threading.Lock()  # Held by whoever ends this process.
    self._stopped = threading.Event()
    self._notices = 0  # Number of the preemption that is watched for.
    self._on_notice = None
    self._noticed = False
    self._thread = threading.Thread(target=self._watch, daemon=True)
    self._thread.start()

  def open(self, on_notice: Callable[[], None]) -> None:
    """Calls `on_notice`, in the thread, once another process is preempted."""
    with self._lock:
      self._notices += 1
      self._on_notice, self._noticed = on_notice, False

  def close(self) -> None:
    """`on_notice` is not called from now on."""
    with self._lock:
      self._on_notice = None

  def notice(self) -> None:
    """This process is preempted: the others are told by the thread."""
    self._noticed = True

  def stop(self) -> None:
    """From now on this process is not ended by others' errors."""
    self._stopped.set()
    self._thread.join()

  def fail(self, line: str, code: int) -> list[int]:
    """Tells the others that this process ends by an error.

    Does not return where another process's error is ending this one already.

    Args:
      line: what the error says.
      code: the exit code.

    Returns:
      The processes that have not heard it in time: they are gone, or hang.
    """
    self._lock.acquire()
    try:
      self._put(f"error-{self._link.index}", json.dumps([line, code]))
      missing = self._missing()
      if not missing:
        self._link.leave()
      return missing
    except jax.errors.JaxRuntimeError:  # Where the others' words are kept.
      return [0]

  def _watch(self):
    told = 0
    while not self._stopped.wait(_SECONDS_BETWEEN_LOOKS):
      with self._lock:  # A training that begins meanwhile sets both.
        number = self._notices if self._noticed else 0
      try:
        if number > told:
          self._put(f"preempted-{number}", "")
          told = number
        found = self._link.read(_BOARD)
      except jax.errors.JaxRuntimeError:
        continue  # Process 0 is gone: JAX ends this process, too.
      failed = [name for name in found if name.startswith("error-")]
      with self._lock:
        if failed and not self._stopped.is_set():
          self._end(failed[0].partition("-")[2], *json.loads(found[failed[0]]))
        if (f"preempted-{self._notices}" in found and self._on_notice
            and not self._noticed):
          self._on_notice()

  def _end(self, index, line, code):
    """Ends this process, whatever its main thread is at."""
    sys.stdout.flush()
    print(f"Error: Process {index}: {line}", file=sys.stderr, flush=True)
    try:
      if not self._missing():
        self._link.leave()
    finally:
      os._exit(code)

  def _missing(self):
    """Waits until all have heard; returns those who have not, in the end."""
    own = f"leaving/{self._link.index}"
    self._link.put(own, "")
    deadline = time.monotonic() + _SECONDS_TO_SAY
    while True:
      heard = self._link.read("leaving")
      missing = [i for i in range(self._link.count) if str(i) not in heard]
      if not missing:
        return []
      if time.monotonic() > deadline:
        self._link.remove(own)  # Who comes now need not wait for this one.
        return missing
      time.sleep(0.05)

  def _put(self, name, text):
    self._link.put(f"{_BOARD}/{name}", text)
