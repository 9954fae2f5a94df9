"""-log p(target) of texts under a model of any method, in nats.

A CVAE's is an upper bound in expectation, by samples of its prior; the others'
are exact.
"""

from typing import Any

import numpy as np

from ctrl_jax.evaluation import bounds, held_out, latent
from ctrl_jax.evaluation.held_out import Texts
from ctrl_jax.tasks.auxiliary_tuning import AuxiliaryTuningTask
from ctrl_jax.tasks.cvae import CVAETask
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.tasks.side_tuning import SideTuningTask
from ctrl_jax.training import evaluation


def task_of(model: Any, has_attributes: bool) -> tuple[Any, Any]:
  """Returns a task whose loss is a model's, and its parameters.

  Args:
    model: a `LanguageModel` with one head at most, which counts: a side
      network always, an auxiliary where texts have attributes.
    has_attributes: whether they have.
  """
  if model.cvae is not None:
    params = {"base": model.params, "cvae": model.cvae.params}
    return CVAETask(model.cvae.config), params
  for head in model.heads.values():
    if not head.takes_attribute:
      params = {"base": model.params, "side": head.params}
      return SideTuningTask(head.config), params
    if has_attributes:
      params = {"base": model.params, "auxiliary": head.params}
      return AuxiliaryTuningTask(head.config), params
  return LanguageModelTask(model.config), model.params


def nll(
    model: Any,
    texts: Texts,
    *,
    batch_size: int = 16,
    num_samples: int = 10,
    seed: int = 0,
) -> np.ndarray:
  """Returns -log p of each text's targets, float64 [N].

  Args:
    model: see `task_of`.
    texts: N.
    batch_size: texts at a time.
    num_samples: S, of a CVAE's prior.
    seed: of these.
  """
  task, params = task_of(model, texts.attribute is not None)
  batches = held_out.batches(texts, batch_size)
  if model.cvae is not None and model.cvae.config.has_latent:
    return bounds.prior_sample_nll(
        latent.prior_nll(task, params, batches, num_samples, seed)
    )
  step = evaluation.make_eval_step(task)
  rows = [step(params, batch) for batch in batches]
  real = np.concatenate([np.asarray(row["weight"]) > 0 for row in rows])
  found = np.concatenate([np.asarray(row["nll"], np.float64) for row in rows])
  return found[real]
