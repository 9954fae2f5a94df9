"""A profile of some training steps, for xprof (and TensorBoard).

  pip install xprof
  xprof --logdir=WORKDIR/profile
"""

import logging
import re
import tempfile

import jax
from etils import epath

from ctrl_jax import errors

FOLDER = "profile"
_LOG = logging.getLogger(__name__)


def parse(text: str, num_steps: int) -> range:
  """Returns the steps that "100:105" names: from step 100 to step 105.

  Args:
    text: two steps of the run, or "" for none.
    num_steps: the run's last step.

  Raises:
    errors.UserError: it is neither, or no such steps are in the run.
  """
  if not text:
    return range(0)
  match = re.fullmatch(r"(\d+):(\d+)", text)
  steps = range(*map(int, match.groups())) if match else range(0)
  if not steps or steps.stop > num_steps:
    raise errors.UserError(
        f"--profile={text}: give two steps of this run, FROM:TO, with FROM <"
        f" TO <= train.steps={num_steps}, as in --profile=100:105."
    )
  return steps


class Profile:
  """Traces steps into WORKDIR/profile.

  Args:
    steps: which; an empty range for none.
    folder: the workdir.
    start: the step that the run begins with, after all of `steps` perhaps:
      that is said, and nothing traced.
  """

  def __init__(self, steps: range, folder: epath.Path, start: int = 0):
    self._steps = steps
    self._folder = folder / FOLDER
    self._traces = None  # Where the profiler writes while it traces.
    if steps and start >= steps.stop:
      _LOG.warning(
          "--profile=%d:%d: the run is at step %d already, there is no profile"
          " of this start.", steps.start, steps.stop, start,
      )

  def is_due(self, step: int) -> bool:
    """Whether `switch` is to be called before the update of this step."""
    return (step in self._steps) != (self._traces is not None)

  def switch(self) -> None:
    """Starts tracing, or stops it; all steps before must have ended."""
    if self._traces is not None:
      self.close()
      return
    # On this machine first: the profiler cannot write into a bucket.
    self._traces = tempfile.TemporaryDirectory(prefix="ctrl_jax-profile-")
    jax.profiler.start_trace(self._traces.name)

  def close(self) -> None:
    """Ends a trace, if one is running, and puts it into the workdir."""
    if self._traces is None:
      return
    traces, self._traces = self._traces, None
    self._steps = range(0)  # Once is enough.
    with traces as folder:
      jax.profiler.stop_trace()
      _copy_tree(epath.Path(folder), self._folder)
    _LOG.info("Profile written: xprof --logdir=%s", self._folder)


def _copy_tree(source: epath.Path, target: epath.Path) -> None:
  target.mkdir(parents=True, exist_ok=True)
  for path in source.iterdir():
    if path.is_dir():
      _copy_tree(path, target / path.name)
    else:
      with errors.naming(target / path.name):
        (target / path.name).write_bytes(path.read_bytes())
