"""Parameters that begin with a look at training texts."""

from collections.abc import Mapping
from typing import Any

from ctrl_jax.data import batches
from ctrl_jax.training import rows as rows_lib
from ctrl_jax.training import run, step


def begin(
    state: step.State,
    task: Any,
    data: batches.TrainBatches,
    rows: rows_lib.Rows,
    batch_size: int,
) -> step.State:
  """Returns a state of step 0 as the first update finds it.

  Args:
    state: as `TrainStep.init` makes it.
    task: `reads_texts_first` says how many texts it wants, none if it has no
      such attribute; `begin_with_texts` returns parameters.
    data: of training; it is read from its first batch on.
    rows: of each batch, this process's.
    batch_size: of the run.
  """
  texts = getattr(task, "reads_texts_first", 0)
  if not texts:
    return state
  wanted = (
      rows.put(run.inputs(data.batch(i)))
      for i in range(-(-texts // batch_size))
  )
  params = task.begin_with_texts(step.all_params(state), wanted)
  return state | {"params": _as_in(state["params"], params)}


def _as_in(tree: Any, of: Any) -> Any:
  """Returns the leaves of `of` that stand in `tree`, which may have fewer."""
  if not isinstance(tree, Mapping):
    return of
  return {name: _as_in(part, of[name]) for name, part in tree.items()}
