import types

import jax
import numpy as np
import optax
import pytest

from ctrl_jax.evaluation import bounds, held_out, latent, likelihood
from ctrl_jax.models import auxiliary, cvae, transformer
from ctrl_jax.models.auxiliary import AuxiliaryConfig
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.tasks.auxiliary_tuning import AuxiliaryTuningTask
from ctrl_jax.tasks.cvae import CVAETask
from ctrl_jax.training import step as step_lib

BASE = TransformerConfig(
    vocab_size=31, d_model=8, d_ff=16, num_layers=1, num_heads=2, max_length=8,
    dropout=0.0, dtype="float32",
)


@pytest.fixture(scope="module")
def texts():
  rng = np.random.default_rng(0)
  weights = (np.arange(9)[None] > rng.integers(0, 7, (5, 1))).astype(np.uint8)
  return held_out.Texts(
      rng.integers(0, 31, (5, 9)).astype(np.int32), weights,
      attribute=rng.integers(0, 31, (5, 3)).astype(np.int32),
      attribute_length=rng.integers(1, 4, 5).astype(np.int32),
  )


def model(params, cvae=None, **heads):
  return types.SimpleNamespace(
      config=BASE, params=params, cvae=cvae, heads=heads
  )


def init(task):
  params = step_lib.TrainStep(task, optax.sgd(0.1)).init()
  return step_lib.all_params(params)


def by_hand(logits, texts):
  nll = optax.softmax_cross_entropy_with_integer_labels(
      logits, texts.tokens[:, 1:]
  )
  return (nll * texts.weights[:, 1:]).sum(1)


def test_of_a_language_model(texts):
  params = transformer.init(BASE, jax.random.key(0))
  hidden = transformer.hidden_states(BASE, params, texts.tokens[:, :-1])
  expected = by_hand(transformer.head(BASE, params, hidden), texts)
  plain = texts._replace(attribute=None, attribute_length=None)
  # Batches of 2, 2 and 1, filled up.
  found = likelihood.nll(model(params), plain, batch_size=2)
  np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_head_counts_where_there_are_attributes(texts):
  config = AuxiliaryConfig(
      BASE, attribute_length=3, reused_layers=1, d_model=8, d_ff=16,
      num_layers=1, num_heads=2, dropout=0.0,
  )
  params = init(AuxiliaryTuningTask(config))
  params["auxiliary"]["output"]["kernel"] = jax.random.normal(
      jax.random.key(5), (8, 8)
  )
  head = types.SimpleNamespace(
      config=config, params=params["auxiliary"], takes_attribute=True
  )
  found = likelihood.nll(model(params["base"], keyword=head), texts)
  hidden, taps = transformer.hidden_states_with_taps(
      BASE, params["base"], texts.tokens[:, :-1], config.taps
  )
  own = auxiliary.hidden_states(
      config, params["auxiliary"], params["base"], texts.tokens[:, :-1], taps,
      texts.attribute, texts.attribute_length,
  )
  logits = transformer.head(BASE, params["base"], hidden + own)
  np.testing.assert_allclose(found, by_hand(logits, texts), rtol=1e-5)
  without = likelihood.nll(
      model(params["base"], keyword=head),
      texts._replace(attribute=None, attribute_length=None),
  )
  assert (np.abs(without - found) > 1e-3).all()


def test_a_cvaes_is_a_bound_by_its_prior(texts):
  task = CVAETask(cvae.CVAEConfig(BASE, 1, 4))
  params = init(task)
  own = types.SimpleNamespace(config=task.cvae, params=params["cvae"])
  found = likelihood.nll(
      model(params["base"], own), texts, batch_size=3, num_samples=4, seed=1
  )
  expected = latent.prior_nll(
      task, params, held_out.batches(texts, 3), 4, seed=1
  )
  np.testing.assert_allclose(found, bounds.prior_sample_nll(expected))
