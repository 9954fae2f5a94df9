import asyncio
import threading

import pytest

from ctrl_jax.training import event_loops


def failing_reads(done):
  """Two reads at a time: one fails at once, the other answers later."""

  async def late():
    loop = asyncio.get_running_loop()
    answer = loop.create_future()
    call = lambda: loop.call_soon_threadsafe(answer.set_result, None)
    threading.Timer(0.05, call).start()
    await answer
    done.append(await asyncio.create_task(later()))

  async def later():
    return "late"

  async def damaged():
    raise ValueError("damaged")

  async def read():
    await asyncio.gather(late(), damaged())

  loop = asyncio.new_event_loop()
  try:
    with pytest.raises(ValueError, match="damaged"):
      loop.run_until_complete(read())
  finally:
    loop.close()
  return loop


def test_what_is_pending_is_waited_for():
  done = []
  before = asyncio.get_event_loop_policy()
  with event_loops.patient():
    loop = failing_reads(done)
    loop.close()  # Again, which is allowed.
  assert done == ["late"] and loop.is_closed()
  assert asyncio.get_event_loop_policy() is before
