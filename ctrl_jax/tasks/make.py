"""From a configuration to its task."""

import dataclasses
from typing import Any

import ml_collections

from ctrl_jax import errors
from ctrl_jax.models.auxiliary import AuxiliaryConfig
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae_config import CVAEConfig
from ctrl_jax.models.lora import LoraConfig
from ctrl_jax.models.side import SideConfig
from ctrl_jax.tasks import auxiliary_tuning, cvae_check
from ctrl_jax.tasks.annealing import Schedule
from ctrl_jax.tasks.auxiliary_tuning import AuxiliaryTuningTask
from ctrl_jax.tasks.cvae import CVAETask
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.tasks.lora import LoraTask
from ctrl_jax.tasks.side_tuning import SideTuningTask


def make(config: ml_collections.ConfigDict, vocab_size: int) -> Any:
  """Returns the task that `config.task.name` names.

  Args:
    config: see `ctrl_jax.config.default`.
    vocab_size: of the data set's tokenizer.

  Raises:
    errors.UserError: an unknown name, or sizes that do not fit each other.
  """
  name = config.task.name
  if name not in _BY_NAME:
    raise errors.UserError(
        f"task.name={name!r} is unknown. {errors.nearest(name, _BY_NAME)}"
    )
  model = TransformerConfig(vocab_size=vocab_size, **config.model)
  return _BY_NAME[name](config, model)


def check(config: ml_collections.ConfigDict, manifest: Any) -> None:
  """Checks that a task can learn from a prepared data set.

  Raises:
    errors.UserError: it cannot.
  """
  if config.task.name in _CHECKS:
    _CHECKS[config.task.name](config, manifest)


def _language_model(config, model):
  return LanguageModelTask(model, config.train.loss_chunk)


def _auxiliary_tuning(config, model):
  rate = config.task.attribute_dropout
  if not 0 <= rate < 1:
    raise errors.UserError(f"task.attribute_dropout={rate} is not in [0, 1).")
  auxiliary = AuxiliaryConfig(model, **config.auxiliary)
  return AuxiliaryTuningTask(
      auxiliary, rate, config.train.loss_chunk,
      reads_states=bool(config.train.frozen_states),
  )


def _cvae(config, model):
  fields = config.cvae.to_dict()
  sizes = {f.name for f in dataclasses.fields(CVAEConfig)} & fields.keys()
  sizes = {name: fields.pop(name) for name in sizes}
  if "auxiliary" in sizes["injections"]:
    # It reads one vector, the latent.
    own = config.auxiliary.to_dict() | dict(
        attribute_length=1, latent_size=sizes["latent_size"]
    )
    sizes["auxiliary"] = AuxiliaryConfig(model, **own)
  words = fields["bag_of_words"] > 0
  latent = CVAEConfig(model, predicts_words=words, **sizes)
  beta = {
      name: fields.pop(f"beta_{name}") for name in ("period", "low", "high")
  }
  schedule = Schedule(fields.pop("beta_schedule"), **beta)
  return CVAETask(
      latent, schedule, chunk_tokens=config.train.loss_chunk, **fields
  )


def _lora(config, model):
  return LoraTask(LoraConfig(model, **config.lora), config.train.loss_chunk)


def _side_tuning(config, model):
  side = SideConfig(model, **config.side)
  return SideTuningTask(side, config.train.loss_chunk)


_BY_NAME = {
    "language_model": _language_model,
    "auxiliary_tuning": _auxiliary_tuning,
    "cvae": _cvae,
    "lora": _lora,
    "side_tuning": _side_tuning,
}
_CHECKS = {"auxiliary_tuning": auxiliary_tuning.check, "cvae": cvae_check.check}
