"""The models that an experiment begins with, trained where they are not there.

In pieces, so that time may be up between two of them; a run that was stopped is
gone on with.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from ctrl_jax import prepare, train
from ctrl_jax.data import files
from ctrl_jax.experiments import config_files
from ctrl_jax.training import checkpoint

_LOG = logging.getLogger("ctrl_jax.experiment")
_PIECE = 500  # Steps.


def make(
    models: Sequence[Mapping[str, str]], is_time_up: Callable[[], bool]
) -> bool:
  """Prepares and trains models; returns whether all are finished.

  Args:
    models: `workdir` and `config`, as `config_files.load` takes, of each; in
      this order.
    is_time_up: asked before each piece.

  Raises:
    errors.UserError: there is no such file, or what training raises.
  """
  for model in models:
    workdir = model["workdir"]
    config = config_files.load(model["config"]).copy_and_resolve_references()
    config.train.max_minutes = 0.0  # Its steps say when it is finished.
    total = config.train.steps
    step = max(checkpoint.saved_steps(files.expand(workdir)), default=0)
    if step >= total:
      continue
    prepare.prepare(config)
    while step < total:
      if is_time_up():
        return False
      step = min(step - step % _PIECE + _PIECE, total)
      _LOG.info("%s, to step %d of %d", workdir, step, total)
      part = config.copy_and_resolve_references()
      part.train.steps = step
      train.train(part, workdir)
  return True
