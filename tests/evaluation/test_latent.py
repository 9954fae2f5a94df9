import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import latent
from ctrl_jax.models import gaussian
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae import CVAEConfig
from ctrl_jax.tasks.cvae import CVAETask
from ctrl_jax.training import step as step_lib

BASE = TransformerConfig(
    vocab_size=31, d_model=16, d_ff=32, num_layers=2, num_heads=2, max_length=8,
    dropout=0.0, dtype="float32",
)


def batches():
  rng = np.random.default_rng(0)
  for n in (4, 2):
    weights = np.tile(np.arange(9) > 2, (4, 1))
    weights[n:] = 0  # Fills the batch up.
    yield {
        "tokens": rng.integers(0, 31, (4, 9)).astype(np.int32),
        "weights": weights.astype(np.uint8), "source": np.zeros(4),
    }


@pytest.mark.parametrize("prior", ["learned", "standard"])
def test_a_model_is_asked(prior):
  task = CVAETask(CVAEConfig(BASE, 1, 4, prior=prior, injections=("softmax",)))
  params = step_lib.TrainStep(task, optax.sgd(0.1)).init()["params"]
  params["cvae"]["softmax"]["kernel"] *= 100
  params["cvae"]["posterior"]["mean"]["kernel"] *= 500
  samples = latent.ask(task, params, batches(), 3)
  assert samples.mean.shape == (6, 4) and samples.nll.shape == (3, 6)
  np.testing.assert_array_equal(samples.tokens, np.full(6, 6))
  # Against the task, for the second batch.
  batch = jax.tree.map(jnp.asarray, list(batches())[1])
  q, p = task.distributions(params, batch)
  np.testing.assert_allclose(samples.mean[4:], q.mean[:2], rtol=1e-5)
  np.testing.assert_allclose(
      samples.log_prior[0, 4:],
      gaussian.log_density(first_rows(p), samples.z[4:]), rtol=1e-4
  )
  swapped = jnp.zeros((4, 4)).at[:2].set(samples.z[[5, 4]])
  np.testing.assert_allclose(
      samples.other_nll[4:], task.nll(params, batch, swapped)[1][:2], rtol=1e-4
  )
  found = latent.measure(task, params, batches(), 3)
  assert found == latent.summary(samples, prior == "learned")
  assert found["sequences"] == 6 and found["tokens"] == 36
  assert found["mutual_information"] <= found["mutual_information_bound"]
  assert found["mutual_information_bound"] == math.log(6)
  perplexity = found["perplexity"]
  assert perplexity["importance_weighted"] <= perplexity["elbo"] * 1.05
  assert found["active_units"] == 4
  with pytest.raises(errors.UserError, match="num_samples"):
    latent.ask(task, params, batches(), 0)
  with pytest.raises(errors.UserError, match="no texts"):
    latent.ask(task, params, [], 1)


def first_rows(p):
  return gaussian.Gaussian(p.mean[:2], p.log_variance[:2])
