"""The head over words begins as what the halves of texts agree on."""

import dataclasses
import os
import pathlib
import subprocess
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from ctrl_jax.models import word_heads
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae_config import CVAEConfig
from ctrl_jax.tasks import cvae_init, cvae_words
from ctrl_jax.tasks.cvae import CVAETask

BASE = TransformerConfig(
    vocab_size=31, d_model=16, d_ff=32, num_layers=2, num_heads=2,
    max_length=12, dropout=0.0, dtype="float32", vocab_multiple=8,
)
CONFIG = CVAEConfig(
    BASE, num_layers=1, latent_size=2, reads_words=True, predicts_words=True
)


def texts_of_topics(seed, size=64):
  """A batch; the topic i % 2 says which of 6 tokens, the place says the rest.

  Within a half one more token is repeated, which says nothing of the other.
  """
  rng = np.random.default_rng(seed)
  topic = np.arange(size) % 2
  own = 6 * topic[:, None] + rng.integers(0, 6, (size, 12))
  noise = np.repeat(rng.integers(12, 31, (size, 2)), 6, axis=1)
  tokens = np.where(rng.random((size, 12)) < 0.4, own, noise)
  tokens = np.concatenate([np.full((size, 1), 30), tokens], axis=1)
  weights = np.ones((size, 13))
  weights[:, 0] = 0
  weights[3] = 0  # A row without a target.
  return topic, {
      "tokens": jnp.asarray(tokens, jnp.int32),
      "weights": jnp.asarray(weights, jnp.uint8),
  }


def test_directions_are_those_of_the_dense_covariance():
  rng = np.random.default_rng(0)
  shared = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 9))
  first, second = (shared + rng.normal(size=(200, 9)) + 3 for _ in range(2))
  covariance = (first - first.mean(0)).T @ (second - second.mean(0)) / 200
  values, vectors = np.linalg.eigh(covariance + covariance.T)
  found = cvae_words.agreeing(
      scipy.sparse.csr_matrix(first), scipy.sparse.csr_matrix(second), 2
  )
  expected = vectors[:, ::-1][:, :2]
  np.testing.assert_allclose(
      np.abs((found * expected).sum(0)), 1.0, rtol=1e-9
  )


def test_where_halves_do_not_agree_there_is_no_direction():
  first = scipy.sparse.csr_matrix(np.array([[1.0, 0, 0, 0], [0, 1, 0, 0]] * 9))
  found = cvae_words.agreeing(first, first, 3)
  np.testing.assert_allclose(
      np.abs(found[:, 0]), [0.5**0.5, 0.5**0.5, 0, 0], atol=1e-9
  )
  assert found.shape == (4, 1)


def test_it_tells_topics_apart_and_not_what_one_half_repeats():
  task = CVAETask(
      CONFIG, init_heads="components", word_smoothing=0.01, bag_of_words=0.1
  )
  assert task.reads_texts_first == cvae_words.TEXTS
  params = jax.jit(lambda: nn.unbox(task.init(jax.random.key(0))))()
  batches = [texts_of_topics(i)[1] for i in range(6)]
  begun = task.begin_with_texts(params, batches)
  topic, other = texts_of_topics(9)
  posterior, prior = jax.jit(task.distributions)(begun, other)
  real = np.arange(64) != 3
  first = posterior.mean[:, 0][real]
  means = [first[topic[real] == i].mean() for i in range(2)]
  # Whitened, so that 2 would be without any noise.
  assert abs(means[0] - means[1]) > 1.6
  np.testing.assert_allclose(
      np.exp(posterior.log_variance), cvae_init.VARIANCE, rtol=2e-2
  )
  assert not prior.mean.any() and not prior.log_variance.any()
  # Over the texts that it was made of: mean 0, variance 1.
  made = np.concatenate([
      jax.jit(task.distributions)(begun, b)[0].mean[real] for b in batches
  ])
  np.testing.assert_allclose(made.mean(0), 0.0, atol=1e-5)
  np.testing.assert_allclose(made.std(0), 1.0, rtol=1e-5)
  # Tokens that are read, the code among them, and those that are targets.
  tokens = np.concatenate([np.asarray(b["tokens"])[real] for b in batches])
  read = np.bincount(tokens[:, :12].ravel(), minlength=32) / (63 * 6 * 12)
  np.testing.assert_allclose(
      begun["cvae"]["words"]["weight"], 0.01 / (0.01 + read), rtol=1e-5
  )
  targets = np.bincount(tokens[:, 1:].ravel(), minlength=32) / (63 * 6 * 12)
  np.testing.assert_allclose(
      begun["cvae"]["bag_of_words"]["frequency"], targets, rtol=1e-5
  )


# Runs in a process of its own: the number of devices is fixed at the start.
_EIGHT_DEVICES = """
import jax
import numpy as np
jax.config.update("jax_num_cpu_devices", 8)
import optax
from ctrl_jax.training import sharding
from ctrl_jax.training import step as step_lib
import test_cvae_words as tests

task = tests.CVAETask(
    tests.CONFIG, init_heads="components", word_smoothing=0.01
)
step = step_lib.TrainStep(task, optax.sgd(0.1))
rules = sharding.ShardingRules()

def begin(devices, **sizes):
  mesh = sharding.make_mesh(**sizes, devices=devices)
  with sharding.use(mesh, rules):
    shards = sharding.shardings(mesh, rules, jax.eval_shape(step.init_boxed))
    state = jax.jit(step.init, out_shardings=shards)()
    batches = [
        jax.device_put(
            jax.tree.map(np.asarray, tests.texts_of_topics(i)[1]),
            sharding.batch_sharding(mesh, rules),
        ) for i in range(3)
    ]
    return task.begin_with_texts(state["params"], batches)["cvae"]

one = begin(jax.devices()[:1], data=1)
many = begin(jax.devices(), data=2, fsdp=2, tensor=2)
assert not many["words"]["kernel"].is_fully_replicated
for name in ("words", "posterior", "bag_of_words"):
  jax.tree.map(
      lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6),
      jax.device_get(one[name]), jax.device_get(many[name]),
  )
print("same")
"""


def test_on_eight_devices_it_begins_as_on_one():
  done = subprocess.run(
      [sys.executable, "-c", _EIGHT_DEVICES], capture_output=True, text=True,
      timeout=300, cwd=pathlib.Path(__file__).parent,
      env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
  )
  assert done.stdout.strip() == "same", done.stderr[-3000:]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_random_heads_begin_beside_zeros(smoothing):
  task = CVAETask(CONFIG, word_smoothing=smoothing)
  params = jax.jit(lambda: nn.unbox(task.init(jax.random.key(0))))()
  begun = task.begin_with_texts(params, [texts_of_topics(0)[1]])
  assert not begun["cvae"]["words"]["kernel"].any()
  weight = begun["cvae"]["words"]["weight"]
  assert (weight == 1).all() == (smoothing == 0)
  jax.tree.map(
      np.testing.assert_array_equal, params["cvae"]["posterior"],
      begun["cvae"]["posterior"],
  )


def test_more_components_than_halves_agree_on():
  config = dataclasses.replace(CONFIG, latent_size=40)
  task = CVAETask(config, init_heads="components")
  params = jax.jit(lambda: nn.unbox(task.init(jax.random.key(0))))()
  begun = task.begin_with_texts(params, [texts_of_topics(0)[1]])
  kernel = np.asarray(begun["cvae"]["words"]["kernel"])
  assert np.isfinite(kernel).all() and not kernel[:, -1].any()


def test_words_reach_the_posterior_alone():
  task = CVAETask(CONFIG)
  params = jax.jit(lambda: nn.unbox(task.init(jax.random.key(0))))()
  of = jax.jit(task.distributions)
  _, batch = texts_of_topics(0)
  before = of(params, batch)
  words = params["cvae"]["words"]
  kernel = words["kernel"].at[:, 1].set(jnp.arange(32.0))
  own = params["cvae"] | {"words": words | {"kernel": kernel}}
  posterior, prior = of(params | {"cvae": own}, batch)
  ends = jnp.where(batch["weights"].any(1), 12, 0)
  more = word_heads.vectors(words["weight"], batch["tokens"][:, :12], ends)
  np.testing.assert_allclose(
      posterior.mean[:, 1] - before[0].mean[:, 1], more @ jnp.arange(32.0),
      rtol=1e-4, atol=1e-4,
  )
  np.testing.assert_array_equal(posterior.mean[:, 0], before[0].mean[:, 0])
  np.testing.assert_array_equal(prior.mean, before[1].mean)
