"""From a configuration to its task."""

import pytest
from task_runs import cvae_configuration as configuration

from ctrl_jax import config, errors
from ctrl_jax.tasks import make
from ctrl_jax.tasks.annealing import Schedule
from ctrl_jax.tasks.auxiliary_tuning import AuxiliaryTuningTask
from ctrl_jax.tasks.cvae import CVAETask
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.tasks.lora import LoraTask
from ctrl_jax.tasks.side_tuning import SideTuningTask


def of(name, **fields):
  c = config.default()
  c.task.name = name
  c.model.d_model, c.model.d_ff, c.model.num_heads = 16, 32, 2
  c.side.init = "random"
  for path, value in fields.items():
    section, field = path.split("__")
    c[section][field] = value
  return make.make(c, 31)


@pytest.mark.parametrize(
    "name, kind",
    [
        ("language_model", LanguageModelTask),
        ("auxiliary_tuning", AuxiliaryTuningTask),
        ("cvae", CVAETask),
        ("lora", LoraTask),
        ("side_tuning", SideTuningTask),
    ],
)
def test_each_name_has_its_task(name, kind):
  assert type(of(name)) is kind


def test_fields_reach_the_task():
  task = of("cvae", cvae__beta_period=7, cvae__beta_high=0.5,
            cvae__latent_size=5, train__loss_chunk=3)
  assert (task.schedule.period, task.schedule.high) == (7, 0.5)
  assert task.cvae.latent_size == 5 and task.cvae.base.vocab_size == 31
  assert task.chunk_tokens == 3
  task = of("auxiliary_tuning", task__attribute_dropout=0.25)
  assert task.attribute_dropout == 0.25


@pytest.mark.parametrize(
    "name, fields, says",
    [
        ("lora_", {}, "task.name='lora_' is unknown. .*lora"),
        ("auxiliary_tuning", dict(task__attribute_dropout=1.0),
         r"task\.attribute_dropout=1\.0 is not in \[0, 1\)"),
        ("cvae", dict(cvae__beta_schedule="linear"), "beta_schedule"),
    ],
)
def test_what_does_not_fit(name, fields, says):
  with pytest.raises(errors.UserError, match=says):
    of(name, **fields)


def test_a_plain_model_learns_from_any_data_set():
  c = config.default()
  make.check(c, None)


def test_from_a_configuration():
  task = make.make(configuration(beta_period=7, beta_low=0.5), 31)
  assert task.schedule == Schedule(period=7, low=0.5)
  assert task.cvae.latent_size == 64 and task.train_base
  for field, value in (("kl_scale", "sum"), ("free_bits", -1.0),
                       ("injections", ("psa",))):
    with pytest.raises(errors.UserError, match=f"cvae.{field}"):
      make.make(configuration(**{field: value}), 31)


def test_an_auxiliary_gets_its_section_and_the_latents_size():
  c = configuration(injections=("auxiliary",), train_base=False)
  c.auxiliary.d_model = 32
  own = make.make(c, 31).cvae.auxiliary
  assert (own.d_model, own.attribute_length, own.latent_size) == (32, 1, 64)
  assert make.make(configuration(), 31).cvae.auxiliary is None


def test_pseudo_self_attention_over_the_prompt():
  c = configuration(injections=("encoder_sequence",), prior="none")
  task = make.make(c, 31)
  assert task.cvae.num_extra_keys == 64
  few = configuration(
      injections=("encoder_sequence",), prior="none", source_length=32
  )
  assert make.make(few, 31).flops_per_token(256) < task.flops_per_token(256)
