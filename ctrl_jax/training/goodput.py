"""Goodput: the share of a run's time that its training steps took.

Productive are the seconds between the first step of a start and its last,
without evaluation, samples, saving and profiles, of those steps alone that a
checkpoint kept. They are divided by all the time since the run was started for
the first time: compiling, steps lost with a machine, and the time without one
count against it.
"""

import json
import time

from etils import epath

from ctrl_jax import errors
from ctrl_jax.training import workdir as workdir_lib

_FILE = "goodput.json"


class Goodput:
  """The goodput of the run in a workdir.

  Args:
    folder: the workdir; gets a file with the time of the first start, unless
      it is there.
    productive: seconds of the steps that the run resumes after.

  Raises:
    errors.UserError: that file is damaged.
  """

  def __init__(self, folder: epath.Path, productive: float = 0.0):
    self._first_start = _first_start(folder / _FILE)
    self._before = productive

  def productive(self, seconds: float) -> float:
    """Productive seconds in all, with `seconds` of this start."""
    return self._before + seconds

  def share(self, seconds: float) -> float:
    """The goodput, in [0, 1], after `seconds` productive ones of this start."""
    productive = self.productive(seconds)
    # Another machine's clock may be behind the first one's.
    elapsed = max(time.time() - self._first_start, productive, 1e-9)
    return productive / elapsed


def _first_start(file: epath.Path) -> float:
  """Seconds since 1970 at the first start, written down there and then."""
  if not file.exists():
    now = time.time()
    workdir_lib.write_file(file, json.dumps({"first_start": now}) + "\n")
    return now
  try:
    return float(json.loads(file.read_text())["first_start"])
  except (ValueError, TypeError, KeyError, RecursionError) as e:
    raise errors.UserError(
        f"{file} is damaged ({type(e).__name__}: {e}): delete it, and goodput"
        " counts from the next start on."
    ) from e
