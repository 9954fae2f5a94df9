"""Event loops that end when their last task has.

Orbax reads a checkpoint's arrays side by side, in an event loop of its own that
it closes as soon as one of them fails. The others' answers then come to a
closed loop, and each prints a traceback.
"""

import asyncio
import contextlib


class _PatientLoop(asyncio.SelectorEventLoop):
  """Waits for its tasks before it closes; their errors are nobody's."""

  def close(self):
    while rest := asyncio.all_tasks(self):  # None are left once it is closed.
      self.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
    super().close()


class _Policy(asyncio.DefaultEventLoopPolicy):

  def new_event_loop(self):
    return _PatientLoop()


@contextlib.contextmanager
def patient():
  """Makes event loops that begin meanwhile wait for their tasks at the end."""
  before = asyncio.get_event_loop_policy()
  asyncio.set_event_loop_policy(_Policy())
  try:
    yield
  finally:
    asyncio.set_event_loop_policy(before)
