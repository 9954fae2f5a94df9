import dataclasses
import functools
import subprocess
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ctrl_jax import errors
from ctrl_jax.models import cvae, gaussian, injections, transformer
from ctrl_jax.models.auxiliary import AuxiliaryConfig
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae_config import CVAEConfig
from ctrl_jax.tasks import cvae as task_lib
from ctrl_jax.tasks.annealing import Schedule
from ctrl_jax.tasks.cvae import CVAETask
from ctrl_jax.training import optimizer
from ctrl_jax.training import step as step_lib

BASE = TransformerConfig(
    vocab_size=31, d_model=16, d_ff=32, num_layers=2, num_heads=2, max_length=8,
    dropout=0.0, dtype="float32", vocab_multiple=8,
)
FIELDS = dict(num_layers=1, latent_size=4)
ALL = CVAEConfig(BASE, injections=injections.NAMES, **FIELDS)
# Prompt tokens (the code among them) and all tokens of each row.
PROMPTS, ENDS = np.array([1, 3, 2, 4, 0, 2]), np.array([9, 6, 3, 9, 0, 8])


def batch(seed=0):
  rng = np.random.default_rng(seed)
  place = np.arange(9)[None]
  target = (place >= PROMPTS[:, None]) & (place < ENDS[:, None])
  tokens = np.where(place < ENDS[:, None], rng.integers(0, 31, (6, 9)), 0)
  return {
      "tokens": jnp.asarray(tokens, jnp.int32),
      "weights": jnp.asarray(target, jnp.uint8),
  }


@functools.cache
def params_of(config=ALL):
  """Parameters moved away from their neutral start."""

  @jax.jit
  def make():
    state = step_lib.TrainStep(CVAETask(config), optax.sgd(1.0)).init()
    keys = iter(jax.random.split(jax.random.key(2), 200))
    return jax.tree.map(
        lambda x: x + 0.1 * jax.random.normal(next(keys), x.shape),
        state["params"],
    )

  return make()


def test_weights_say_where_prompts_and_texts_end():
  found = task_lib.lengths(batch()["weights"])
  np.testing.assert_array_equal(found.prompt, PROMPTS)
  np.testing.assert_array_equal(found.whole, ENDS)
  # Weight within a text may be 0 (an unknown token, say).
  holes = jnp.array([[0, 1, 0, 1, 0]])
  assert task_lib.lengths(holes) == (jnp.array([1]), jnp.array([4]))


def loss(task, *args, **options):
  """One program rather than one for each of its operations."""
  return jax.jit(task.loss)(*args, **options)


def by_hand(task, params, b, z, beta, posterior, prior):
  """CE and KL written out; returns (CE a row, KL a row)."""
  logits = cvae.logits(
      task.cvae, params["cvae"], params["base"], b["tokens"][:, :-1], z
  )
  nll = optax.softmax_cross_entropy_with_integer_labels(
      logits, b["tokens"][:, 1:]
  )
  return (nll * b["weights"][:, 1:]).sum(1), gaussian.kl(posterior, prior)


@pytest.mark.parametrize("scale", ["per_token", "original"])
def test_loss_by_hand(scale):
  task = CVAETask(
      ALL, Schedule("constant", high=0.3), scale, chunk_tokens=16
  )
  params, b = params_of(), batch()
  key = jax.random.key(7)
  total, rows = loss(task, params, b, key, step=jnp.int32(0))

  @jax.jit
  def expected():
    posterior, prior = task.distributions(params, b)
    z = gaussian.sample(posterior, jax.random.split(key, 3)[0])
    return by_hand(task, params, b, z, 0.3, posterior, prior)

  ce, kl = expected()
  real = ENDS > 0
  kl = kl.sum(1) * real
  tokens = (ENDS - PROMPTS).sum()
  factor = 1 if scale == "per_token" else tokens / 5
  np.testing.assert_allclose(
      total, ce.sum() + 0.3 * factor * kl.sum(), rtol=1e-5
  )
  np.testing.assert_allclose(rows["reconstruction"], ce, rtol=1e-4)
  np.testing.assert_allclose(rows["kl"], kl, rtol=1e-5)
  np.testing.assert_allclose(rows["nll"], ce + kl, rtol=1e-4)
  np.testing.assert_array_equal(rows["weight"], ENDS - PROMPTS)
  np.testing.assert_allclose(rows["beta"], 0.3 * real)


def test_gradients_are_those_of_the_whole_logits():
  task = CVAETask(ALL, Schedule("constant", high=0.7), chunk_tokens=16)
  params, b = params_of(), batch()
  key = jax.random.key(7)

  def plain(params):
    posterior, prior = task.distributions(params, b)
    z = gaussian.sample(posterior, jax.random.split(key, 3)[0])
    ce, kl = by_hand(task, params, b, z, 0.7, posterior, prior)
    return ce.sum() + 0.7 * (kl.sum(1) * (ENDS > 0)).sum()

  ours = lambda p: task.loss(p, b, key, step=jnp.int32(0))[0]
  found, expected = (jax.jit(jax.grad(f))(params) for f in (ours, plain))
  jax.tree.map(
      lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-4),
      found, expected,
  )
  # The encoder reaches the shared tables; z, the posterior and the prior.
  for path in ("posterior", "prior", "pooling", "encoder"):
    assert all(
        np.abs(x).max() > 0 for x in jax.tree.leaves(found["cvae"][path])
    ), path


def test_loss_without_a_latent_by_hand():
  config = CVAEConfig(
      BASE, injections=("encoder_sequence",), prior="none", source_length=3,
      num_layers=1,
  )
  task = CVAETask(config, chunk_tokens=16)
  params, b = params_of(config), batch()
  total, rows = loss(task, params, b, jax.random.key(1), step=jnp.int32(0))

  @jax.jit
  def nll(params, b):
    source = cvae.read_source(
        config, params["cvae"], params["base"], b["tokens"][:, :3],
        jnp.minimum(PROMPTS, 3),
    )
    hidden = cvae.hidden_states(
        config, params["cvae"], params["base"], source, b["tokens"][:, :-1]
    )
    return optax.softmax_cross_entropy_with_integer_labels(
        transformer.head(BASE, params["base"], hidden), b["tokens"][:, 1:]
    )

  expected = (nll(params, b) * b["weights"][:, 1:]).sum(1)
  np.testing.assert_allclose(rows["nll"], expected, rtol=1e-4)
  np.testing.assert_allclose(total, expected.sum(), rtol=1e-5)
  np.testing.assert_array_equal(rows["source_cut"], PROMPTS > 3)
  assert set(rows) == {"nll", "weight", "source_cut"}
  # One update moves everything that there is.
  states = [step_lib.all_params(state) for state, _ in run(task, 1)]
  assert all(jax.tree.leaves(moved(*states)["cvae"]))


def test_an_auxiliary_that_reads_z_trains_beside_a_frozen_decoder():
  own = AuxiliaryConfig(
      BASE, attribute_length=1, latent_size=4, reused_layers=1, d_model=8,
      d_ff=16, num_layers=1, num_heads=2,
  )
  config = CVAEConfig(
      BASE, injections=("auxiliary",), auxiliary=own, **FIELDS
  )
  task = CVAETask(config, Schedule("constant"), train_base=False)
  seen = run(task, 3)
  first, last = (step_lib.all_params(seen[i][0]) for i in (0, 3))
  change = moved(first, last)
  assert not any(jax.tree.leaves(change["base"]))
  assert all(jax.tree.leaves(change["cvae"]))
  assert "frozen" in seen[0][0]
  losses = [float(m["reconstruction"]) for _, m in seen[1:]]
  assert losses[-1] < losses[0]


def test_what_is_padding_or_target_changes_only_what_it_may():
  task = CVAETask(ALL)
  params, b = params_of(), batch()
  posterior, prior = task.distributions(params, b)
  after = jnp.arange(9)[None] >= ENDS[:, None]
  padded = b | {"tokens": jnp.where(after, 5, b["tokens"])}
  other = task.distributions(params, padded)
  real = ENDS > 0
  for x, y in zip(jax.tree.leaves((posterior, prior)), jax.tree.leaves(other)):
    np.testing.assert_array_equal(x[real], y[real])
  text = jnp.arange(9)[None] >= PROMPTS[:, None]
  changed = b | {"tokens": jnp.where(text, 5, b["tokens"])}
  q, p = task.distributions(params, changed)
  np.testing.assert_array_equal(p.mean[real], prior.mean[real])
  assert (q.mean != posterior.mean)[real].any(1).all()


def test_free_bits_and_the_floor_bound_the_batchs_mean():
  params, b = params_of(), batch()
  key, step = jax.random.key(0), jnp.int32(0)
  constant = Schedule("constant")
  of = lambda **fields: loss(
      CVAETask(ALL, constant, **fields), params, b, key, step=step
  )
  total, rows = of()
  posterior, prior = CVAETask(ALL).distributions(params, b)
  kl_Z = gaussian.kl(posterior, prior)[ENDS > 0].mean(0)
  bits = float(np.median(kl_Z))
  free, free_rows = of(free_bits=bits)
  expected = total + 5 * (np.maximum(kl_Z, bits) - kl_Z).sum()
  np.testing.assert_allclose(free, expected, rtol=1e-5)
  np.testing.assert_array_equal(free_rows["kl"], rows["kl"])  # Not hidden.
  floor, _ = of(kl_floor=100.0)
  np.testing.assert_allclose(
      floor, total - rows["kl"].sum() + 500.0, rtol=1e-5
  )
  gradient = jax.jit(jax.grad(
      lambda p: CVAETask(ALL, constant, kl_floor=100.0).loss(
          p, b, key, step=step
      )[0]
  ))(params)
  assert not any(
      np.abs(x).max() for x in jax.tree.leaves(gradient["cvae"]["prior"])
  )


def run(task, steps, accumulate=1):
  rule = optimizer.make(optimizer.OptimizerConfig("adam", 0.01, 0))
  step = step_lib.TrainStep(task, rule, accumulate=accumulate)
  state = jax.jit(step.init)()
  update = jax.jit(step.__call__, static_argnums=2)
  seen = [(state, None)]
  for i in range(steps):
    seen.append(update(seen[-1][0], batch(), step.phase(i)))
  return seen


def moved(a, b):
  different = lambda x, y: bool((np.asarray(x) != np.asarray(y)).any())
  return jax.tree.map(different, a, b)


@pytest.mark.parametrize("train_base", [True, False])
def test_pretrained_leaves_stand_still_at_first(train_base):
  task = CVAETask(
      ALL, Schedule(period=4), freeze_steps=2, train_base=train_base
  )
  states = [state for state, _ in run(task, 4)]
  params = list(map(step_lib.all_params, states))
  first, last = moved(params[0], params[2]), moved(params[2], params[4])
  new = {k: v for k, v in first["cvae"].items() if k != "encoder"}
  assert all(jax.tree.leaves(new))
  assert not any(jax.tree.leaves((first["base"], first["cvae"]["encoder"])))
  assert all(jax.tree.leaves(last["cvae"]))
  assert all(jax.tree.leaves(last["base"])) == train_base
  assert any(jax.tree.leaves(last["base"])) == train_base
  assert ("frozen" in states[0]) != train_base
  # A frozen leaf's state stands still, its count included.
  counts = [int(s.count) for s, _ in states[4]["opt_state"]]
  assert counts == [4, 2]


def test_metrics_say_what_beta_and_the_kl_are():
  task = CVAETask(ALL, Schedule(period=4, low=0.0))
  seen = [metrics for _, metrics in run(task, 4)[1:]]
  np.testing.assert_allclose([m["beta"] for m in seen], [0, 0, 0, 1])
  assert all(m["kl"] > 0 and m["reconstruction"] > 0 for m in seen)
  loss = (seen[0]["reconstruction"] * 5) / seen[0]["tokens"]
  np.testing.assert_allclose(seen[0]["loss"], loss, rtol=1e-5)


def test_accumulation_gives_the_metrics_of_the_whole_batch():
  task = CVAETask(ALL, Schedule("constant"))
  (first, _), (_, metrics) = run(task, 1, accumulate=3)
  q, p = task.distributions(first["params"], batch())
  kl = gaussian.kl(q, p).sum(1)[ENDS > 0].mean()
  np.testing.assert_allclose(metrics["kl"], kl, rtol=1e-5)
  assert metrics["tokens"] == (ENDS - PROMPTS).sum() and metrics["beta"] == 1


@pytest.mark.parametrize("fields", [
    dict(kl_scale="original"),
    # Below it lie other dimensions in the batch than in its parts.
    dict(kl_scale="original", free_bits=0.0086),
], ids=str)
def test_accumulation_gives_the_gradients_of_the_whole_batch(
    fields, monkeypatch
):
  """Micro-batches differ in sequences, tokens and what is free."""
  monkeypatch.setattr(
      task_lib.gaussian, "sample", lambda given, key: given.mean
  )
  config = dataclasses.replace(ALL, injections=("input",))
  task = CVAETask(config, Schedule("constant"), **fields)
  found = []
  for accumulate in (1, 3):
    step = step_lib.TrainStep(task, optax.sgd(1.0), accumulate=accumulate)
    found.append(jax.jit(step)(jax.jit(step.init)(), batch()))
  (whole, metrics), (parts, other) = found
  assert task.loss_takes_sums
  for name in ("loss", "grad_norm", "kl"):
    np.testing.assert_allclose(metrics[name], other[name], rtol=1e-5)
  jax.tree.map(
      lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6),
      whole["params"], parts["params"],
  )


def test_a_nan_leaves_the_parameters_and_is_counted():
  task = CVAETask(ALL)
  step = step_lib.TrainStep(task, optax.sgd(0.1))
  state = jax.jit(step.init)()
  heads = state["params"]["cvae"]["posterior"]["log_variance"]
  heads["bias"] = heads["bias"].at[0].set(jnp.nan)
  new, metrics = jax.jit(step)(state, batch())
  assert metrics["skipped_in_row"] == 1 and not np.isfinite(metrics["loss"])
  jax.tree.map(np.testing.assert_array_equal, new["params"], state["params"])


def test_beginning_with_a_model_is_beginning_with_it_twice():
  task = CVAETask(ALL)
  params = params_of()
  start = task.begin(params["base"])
  np.testing.assert_array_equal(
      start["cvae"]["encoder"]["layers"]["up"]["kernel"],
      start["base"]["layers"]["up"]["kernel"][:1],
  )
  assert set(start["cvae"]) == {"encoder"}


def test_a_vae_has_a_standard_prior():
  task = CVAETask(dataclasses.replace(ALL, prior="standard"))
  params = params_of(task.cvae)
  q, p = task.distributions(params, batch())
  assert not p.mean.any() and not p.log_variance.any() and q.mean.any()
  assert "prior" not in params["cvae"]


# Runs in a process of its own: the number of devices is fixed at the start.
_EIGHT_DEVICES = """
import dataclasses
import sys
import jax, numpy as np
jax.config.update("jax_num_cpu_devices", 8)
from ctrl_jax.models.auxiliary import AuxiliaryConfig
from ctrl_jax.models import cvae, injections
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.tasks.annealing import Schedule
from ctrl_jax.tasks.cvae import CVAETask
from ctrl_jax.training import checksum, optimizer, sharding
from ctrl_jax.training import step as step_lib

base = TransformerConfig(
    vocab_size=61, d_model=16, d_ff=32, num_layers=2, num_heads=4,
    max_length=8, dropout=0.1, dtype="float32", vocab_multiple=8,
)
rng = np.random.default_rng(0)
target = np.arange(9)[None] >= rng.integers(1, 6, (8, 1))
batches = [
    {"tokens": rng.integers(0, 61, (8, 9)).astype(np.int32),
     "weights": target.astype(np.uint8)} for _ in range(3)
]
rules = sharding.ShardingRules()

fields = dict(
    latents=dict(injections=injections.NAMES),
    source=dict(
        prior="none", injections=("encoder_sequence",), source_length=4
    ),
    auxiliary=dict(
        injections=("auxiliary",), auxiliary=AuxiliaryConfig(
            base, attribute_length=1, latent_size=4, reused_layers=1,
            d_model=8, d_ff=16, num_layers=1, num_heads=2,
        ),
    ),
)[sys.argv[1]]

def run(devices, scan=False, **sizes):
  model = cvae.CVAEConfig(
      dataclasses.replace(base, scan_layers=scan), num_layers=1, latent_size=4,
      **fields
  )
  task = CVAETask(model, Schedule(period=2), free_bits=0.01)
  tx = optimizer.make(optimizer.OptimizerConfig(warmup_steps=0))
  step = step_lib.TrainStep(task, tx)
  mesh = sharding.make_mesh(**sizes, devices=devices)
  with sharding.use(mesh, rules):
    shards = sharding.shardings(mesh, rules, jax.eval_shape(step.init_boxed))
    state = jax.jit(step.init, out_shardings=shards)()
    start = checksum.tree_checksums(state)
    update = jax.jit(step, donate_argnums=0, out_shardings=(shards, None))
    seen = []
    for b in batches:
      b = jax.device_put(b, sharding.batch_sharding(mesh, rules))
      state, metrics = update(state, b)
      seen.append([
          float(metrics[k]) for k in ("loss", "kl", "beta") if k in metrics
      ])
    return start, seen

start, seen = run(jax.devices()[:1], data=1)
# Along each axis of the mesh, what test_sharding.py does one by one.
other_start, other = run(jax.devices(), True, data=2, fsdp=2, tensor=2)
assert other_start == start
np.testing.assert_allclose(other, seen, rtol=1e-5)
print("same")
"""


@pytest.mark.parametrize("kind", [
    "latents",
    pytest.param("source", marks=pytest.mark.slow),
    pytest.param("auxiliary", marks=pytest.mark.slow),
])
def test_eight_devices_give_the_losses_of_one(kind):
  done = subprocess.run(
      [sys.executable, "-c", _EIGHT_DEVICES, kind], capture_output=True,
      text=True, timeout=300,
  )
  assert done.stdout.strip() == "same", done.stderr[-3000:]


def test_the_words_by_hand():
  config = dataclasses.replace(ALL, predicts_words=True)
  task = CVAETask(config, bag_of_words=0.25)
  params = jax.jit(lambda: nn.unbox(task.init(jax.random.key(0))))()
  data = batch()
  plain = CVAETask(config)
  total, rows = loss(task, params, data, jax.random.key(1))
  without, expected = loss(plain, params, data, jax.random.key(1))
  words = rows.pop("bag_of_words")
  assert rows.keys() == expected.keys()
  for name in rows:
    np.testing.assert_array_equal(rows[name], expected[name])
  np.testing.assert_allclose(
      total - without, 0.25 * words.sum(), rtol=1e-3
  )
  # It reaches the encoder, and nothing of the decoder but the tables it reads.
  gradient = jax.jit(jax.grad(
      lambda p: task.loss(p, data, jax.random.key(1))[1]["bag_of_words"].sum()
  ))(params)
  assert all(
      jnp.abs(x).max() > 0
      for x in jax.tree.leaves(gradient["cvae"]["posterior"])
  )
  assert all(
      jnp.abs(x).max() == 0 for x in jax.tree.leaves(gradient["base"]["layers"])
  )


def test_the_words_are_read_of_a_latent():
  with pytest.raises(errors.UserError, match="reads_words are of a latent"):
    dataclasses.replace(
        ALL, prior="none", injections=("encoder_sequence",), source_length=4,
        predicts_words=True,
    )
