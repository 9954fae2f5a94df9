import dataclasses

import pytest

from ctrl_jax import errors
from ctrl_jax.models.auxiliary import AuxiliaryConfig
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae_config import CVAEConfig

CTRL = TransformerConfig(
    vocab_size=29, d_model=16, d_ff=32, num_layers=3, num_heads=2,
    max_length=10, dropout=0.5, dtype="float32", vocab_multiple=8,
)


def auxiliary(**fields):
  return AuxiliaryConfig(
      CTRL, **dict(attribute_length=1, latent_size=6) | fields
  )


def test_equal_sets_are_equal_configurations():
  one = CVAEConfig(CTRL, injections=["softmax", "input", "softmax"])
  assert one == CVAEConfig(CTRL, injections=("input", "softmax"))
  assert one.injections == ("input", "softmax")


def test_the_auxiliary_has_the_decoders_sizes():
  config = CVAEConfig(
      CTRL, injections=("auxiliary",), auxiliary=auxiliary()
  )
  wider = dataclasses.replace(CTRL, vocab_multiple=1)
  changed = dataclasses.replace(config, base=wider)
  assert changed.auxiliary.base == wider
  assert changed.auxiliary.d_model == config.auxiliary.d_model


def test_extra_keys_are_counted():
  of = lambda **fields: CVAEConfig(CTRL, **fields).num_extra_keys
  assert of() == 0
  assert of(injections=("memory", "pseudo_self_attention", "input")) == 2
  assert of(
      prior="none", injections=("encoder_sequence",), source_length=7
  ) == 7


@pytest.mark.parametrize("fields, message", [
    (dict(pooling="mean"), "cvae.pooling='mean'"),
    (dict(prior="some"), "cvae.prior"),
    (dict(prior="none"), "encoder_sequence"),
    (dict(injections=("encoder_sequence",)), "set both or neither"),
    (dict(prior="none", injections=("encoder_sequence", "input")),
     "set both or neither"),
    (dict(prior="none", injections=("encoder_sequence",), source_length=11),
     "1 to 10"),
    (dict(injections=("auxiliary",),
          auxiliary=auxiliary(kind="independent")), "kind='feature'"),
    (dict(injections=("psa",)), "'psa' is unknown"),
    (dict(injections=()), "at least one"),
    (dict(injections="input"), "must be a list"),
    (dict(num_layers=4), "1 to 3"),
    (dict(scale_head="sigma"), "cvae.scale_head='sigma'"),
    (dict(latent_size=0), "latent_size"),
    (dict(log_variance_bound=0.0), "log_variance_bound"),
])
def test_bad_configurations(fields, message):
  with pytest.raises(errors.UserError, match=message):
    CVAEConfig(CTRL, **fields)
