"""Where figures of a run go: `metrics.jsonl` and TensorBoard."""

import json
from typing import Any

import tensorboardX
from etils import epath

from ctrl_jax.training import appending


class MetricWriter:
  """Appends one JSON object a line to `metrics.jsonl`, and to TensorBoard.

  A resumed run appends; a reader takes the last line of a step.
  """

  def __init__(self, workdir: epath.PathLike):
    folder = epath.Path(workdir)
    self._file = appending.Appender(folder / "metrics.jsonl")
    self._board = tensorboardX.SummaryWriter(str(folder / "tensorboard"))

  def write(self, step: int, values: dict[str, Any]) -> None:
    """Writes numbers of one step; nested dicts become `outer/inner`."""
    flat = dict(_flatten(values))
    self._file.write(json.dumps({"step": step, **flat}) + "\n")
    for name, value in flat.items():
      if isinstance(value, str):
        self._board.add_text(name, value, step)
      else:
        self._board.add_scalar(name, value, step)

  def flush(self) -> None:
    """Returns when all lines are in `metrics.jsonl`, also in a bucket."""
    self._file.flush()

  def close(self) -> None:
    """Flushes and closes both."""
    self._file.close()
    self._board.close()


def _flatten(values, prefix=""):
  for name, value in values.items():
    if isinstance(value, dict):
      yield from _flatten(value, f"{prefix}{name}/")
    else:
      yield prefix + name, value
