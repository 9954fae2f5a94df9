import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import latent
from ctrl_jax.models import gaussian
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae_config import CVAEConfig
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
  asked = latent.ask(task, params, batches(), 3)
  encoded = latent.encode(task, params, batches())
  assert encoded.mean.shape == (6, 4) and asked.nll.shape == (3, 6)
  np.testing.assert_array_equal(asked.tokens, np.full(6, 6))
  np.testing.assert_allclose(asked.kl, encoded.kl.sum(1), rtol=1e-5)
  # Against the task, for the second batch.
  batch = jax.tree.map(jnp.asarray, list(batches())[1])
  q, p = task.distributions(params, batch)
  np.testing.assert_allclose(encoded.mean[4:], q.mean[:2], rtol=1e-5)
  np.testing.assert_allclose(encoded.prior_mean[4:], p.mean[:2], rtol=1e-5)
  # The same draws in both orders of random numbers would be chance.
  key = jax.random.fold_in(jax.random.key(0), 1)
  own_key, prior_key = jax.random.split(key)
  z = gaussian.sample(q, jax.random.split(own_key, 3)[0])
  np.testing.assert_allclose(
      asked.log_prior[0, 4:], gaussian.log_density(p, z)[:2], rtol=1e-4
  )
  np.testing.assert_allclose(
      asked.nll[0, 4:], task.nll(params, batch, z)[1][:2], rtol=1e-4
  )
  swapped = jnp.zeros((4, 4)).at[:2].set(z[jnp.array([1, 0])])
  np.testing.assert_allclose(
      asked.other_nll[4:], task.nll(params, batch, swapped)[1][:2], rtol=1e-4
  )
  prior = latent.prior_nll(task, params, batches(), 3)
  z = gaussian.sample(p, jax.random.split(key, 3)[2])
  np.testing.assert_allclose(
      prior[2, 4:], task.nll(params, batch, z)[1][:2], rtol=1e-4
  )
  z = gaussian.sample(p, jax.random.split(prior_key, 3)[2])
  np.testing.assert_allclose(
      asked.prior_nll[2, 4:], task.nll(params, batch, z)[1][:2], rtol=1e-4
  )
  for found, of in (
      (asked.prior_log_prior, p), (asked.prior_log_posterior, q)
  ):
    np.testing.assert_allclose(
        found[2, 4:], gaussian.log_density(of, z)[:2], rtol=1e-4
    )
  with pytest.raises(errors.UserError, match="num_samples"):
    latent.ask(task, params, batches(), 0)
  for call in (latent.encode, lambda *a: latent.ask(*a, 1)):
    with pytest.raises(errors.UserError, match="no texts"):
      call(task, params, [])
  alone = next(batches())
  alone["weights"][1:] = 0
  with pytest.raises(errors.UserError, match="fewer than two"):
    latent.ask(task, params, [alone], 1)
