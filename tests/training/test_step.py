import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.training import optimizer, sharding, trainable, weights
from ctrl_jax.training import step as step_lib

MODEL = TransformerConfig(
    vocab_size=50, d_model=16, d_ff=32, num_layers=2, num_heads=4, max_length=8,
    dropout=0.0, dtype="float32",
)


def batch(seed=0, rows=8):
  rng = np.random.default_rng(seed)
  weights = rng.integers(0, 2, (rows, 9)).astype(np.float32)
  return {
      "tokens": jnp.asarray(rng.integers(0, 50, (rows, 9)), jnp.int32),
      "weights": jnp.asarray(weights),
  }


@functools.cache
def make(accumulate=1, dropout=0.0, seed=0):
  task = LanguageModelTask(dataclasses.replace(MODEL, dropout=dropout), 16)
  tx = optimizer.make(optimizer.OptimizerConfig(warmup_steps=0))
  step = step_lib.TrainStep(task, tx, seed, accumulate)
  return jax.jit(step.init), jax.jit(step.__call__)


@pytest.mark.parametrize("accumulate", [2, 4])
def test_accumulation_gives_the_update_of_the_whole_batch(accumulate):
  init, whole = make()
  _, parts = make(accumulate)
  state = init()
  a, metrics_a = whole(state, batch())
  b, metrics_b = parts(state, batch())
  for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)):
    np.testing.assert_allclose(x, y, atol=1e-6)
  np.testing.assert_allclose(metrics_a["loss"], metrics_b["loss"], rtol=1e-6)
  assert metrics_a["tokens"] == metrics_b["tokens"]


def test_loss_is_the_mean_over_target_tokens():
  init, update = make()
  state = init()
  b = batch()
  _, metrics = update(state, b)
  model = transformer.Transformer(MODEL)
  logits = model.apply({"params": state["params"]}, b["tokens"][:, :-1])
  nll = optax.softmax_cross_entropy_with_integer_labels(
      logits, b["tokens"][:, 1:]
  )
  expected = (nll * b["weights"][:, 1:]).sum() / b["weights"][:, 1:].sum()
  np.testing.assert_allclose(metrics["loss"], expected, rtol=1e-6)


@pytest.mark.parametrize(
    "name",
    ["adagrad", "factored_adagrad", "adam", "adafactor", "sm3", "novograd"],
)
def test_each_optimizers_state_is_laid_out_on_a_mesh(name):
  """As training does it; some states are of other shapes than parameters."""
  tx = optimizer.make(optimizer.OptimizerConfig(name))
  step = step_lib.TrainStep(LanguageModelTask(MODEL, 16), tx)
  mesh = sharding.make_mesh(1, 1, 1, jax.devices()[:1])
  rules = sharding.ShardingRules()
  with sharding.use(mesh, rules):
    boxed = jax.eval_shape(step.init_boxed)
    shardings = sharding.shardings(mesh, rules, boxed)
    state = jax.eval_shape(step.init)
  assert jax.tree.structure(state) == jax.tree.structure(shardings)


def test_training_learns_one_batch_by_heart():
  init, update = make()
  state = init()
  losses = []
  for _ in range(60):
    state, metrics = update(state, batch())
    losses.append(float(metrics["loss"]))
  assert losses[-1] < 0.7 * losses[0]


def test_non_finite_gradients_leave_all_but_the_counters_alone():
  init, update = make()
  state = init()
  bad = {**batch(), "weights": batch()["weights"] * jnp.inf}
  after, metrics = update(state, bad)
  for name in ("params", "opt_state"):
    jax.tree.map(np.testing.assert_array_equal, after[name], state[name])
  assert (after["step"], after["skipped"], after["skipped_in_row"]) == (1, 1, 1)
  after, metrics = update(after, bad)
  assert metrics["skipped_in_row"] == 2
  after, metrics = update(after, batch())
  assert (metrics["skipped"], metrics["skipped_in_row"]) == (2, 0)
  before = state["params"]["embedding"]["table"]
  assert (after["params"]["embedding"]["table"] != before).any()


def test_dropout_depends_on_seed_and_step_alone():
  init, update = make(dropout=0.3)
  state = init()
  loss = lambda f, state: float(f(state, batch())[1]["loss"])
  assert loss(update, state) == loss(update, state)
  assert loss(update, state) != loss(update, {**state, "step": jnp.int32(1)})
  _, other = make(dropout=0.3, seed=1)
  assert loss(update, state) != loss(other, state)


def test_a_batch_without_targets_changes_no_parameter():
  init, update = make()
  state = init()
  empty = {**batch(), "weights": jnp.zeros((8, 9))}
  after, metrics = update(state, empty)
  jax.tree.map(
      np.testing.assert_array_equal, after["params"], state["params"]
  )
  assert metrics["loss"] == 0


def matrix(state):
  return np.asarray(state["params"]["layers"]["up"]["kernel"], np.float32)


def test_split_weights_train_as_float32_does():
  """Products in bfloat16: the model reads the same, and gradients are as exact.

  A rate so low that bfloat16 weights would not move.
  """
  model = dataclasses.replace(MODEL, dtype="bfloat16")
  task = LanguageModelTask(model, 16)
  tx = optimizer.make(optimizer.OptimizerConfig("factored_adagrad", 1e-4, 0))
  ends = {}
  for kind in ("float32", "split"):
    step = step_lib.TrainStep(task, tx, clip_norm=1.0, weights=kind)
    state, update = jax.jit(step.init)(), jax.jit(step)
    first = state
    for i in range(5):
      state, metrics = update(state, batch(i))
    ends[kind] = state, metrics
  (whole, a), (split, b) = ends["float32"], ends["split"]
  np.testing.assert_allclose(a["loss"], b["loss"], rtol=1e-4)
  np.testing.assert_allclose(a["grad_norm"], b["grad_norm"], rtol=1e-2)
  joined = weights.join(split["params"], split["low_bits"])
  start = weights.join(first["params"], first["low_bits"])
  moved = jax.tree.map(jnp.subtract, joined, start)
  expected = jax.tree.map(jnp.subtract, whole["params"], start)
  for x, y in zip(jax.tree.leaves(moved), jax.tree.leaves(expected)):
    np.testing.assert_allclose(x, y, atol=0.02 * float(jnp.abs(y).max()))
  assert (np.asarray(joined["layers"]["up"]["kernel"]) != matrix(first)).all()


def test_split_weights_take_no_more_memory():
  task = LanguageModelTask(MODEL, 16)
  tx = optimizer.make(optimizer.OptimizerConfig("adagrad"))
  sizes = [
      sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(jax.eval_shape(
          step_lib.TrainStep(task, tx, weights=kind).init
      )))
      for kind in ("float32", "split")
  ]
  assert sizes[0] == sizes[1]


def test_sums_of_bfloat16_gradients_are_float32():
  step = step_lib.TrainStep(
      LanguageModelTask(MODEL, 16), optax.sgd(1.0), accumulate=2,
      weights="split",
  )
  state = jax.eval_shape(step.init)
  everything = jax.tree.map(lambda _: True, state["params"])
  gradients = jax.eval_shape(
      lambda params: step._gradients(
          params, everything, batch(), jax.random.key(0), 0
      )[2],
      state["params"],
  )
  assert {x.dtype.name for x in jax.tree.leaves(gradients)} == {"float32"}


class TwoPhases(LanguageModelTask):
  """The head's bias and the blocks first, then the table too; norms never."""

  phases = (
      trainable.Phase(
          ((r"layers/.*|head/.*", True), (r".*", False)), until_step=2
      ),
      trainable.Phase(((r"final_norm/.*", False), (r".*", True))),
  )


def test_phases():
  task = TwoPhases(MODEL, 16)
  tx = optimizer.make(optimizer.OptimizerConfig("adam", 0.01, 0))
  step = step_lib.TrainStep(task, tx, clip_norm=0.5)
  assert [step.phase(s) for s in range(4)] == [0, 0, 1, 1]
  state = jax.jit(step.init)()
  assert set(state["frozen"]) == {"final_norm"}
  # Frozen leaves have no state, the others have one from the start.
  sizes = lambda tree: sum(x.size for x in jax.tree.leaves(tree))
  counts = [s[0].count for s in state["opt_state"]]
  assert len(counts) == 2
  assert sizes([s[0].mu for s in state["opt_state"]]) == sizes(state["params"])
  update = jax.jit(step, static_argnums=2)
  before = state
  for s in range(2):
    state, metrics = update(state, batch(s), step.phase(s))
  table = lambda state: state["params"]["embedding"]["table"]
  np.testing.assert_array_equal(table(state), table(before))
  head, rest = state["opt_state"]
  assert (head[0].count, rest[0].count) == (2, 0)
  jax.tree.map(lambda x: np.testing.assert_array_equal(x, 0 * x), rest[0].mu)
  state, _ = update(state, batch(2), step.phase(2))
  assert (table(state) != table(before)).any()
  head, rest = state["opt_state"]
  assert (head[0].count, rest[0].count) == (3, 1)
  jax.tree.map(
      np.testing.assert_array_equal, state["frozen"], before["frozen"]
  )
  assert jax.tree.structure(step_lib.all_params(state)) == jax.tree.structure(
      transformer.init(MODEL, jax.random.key(0))
  )


def test_clipping_is_by_the_norm_of_all_that_trains():
  """Two groups, one norm: each update is the whole clipped gradient's."""
  task = TwoPhases(MODEL, 16)
  sgd = optax.sgd(1.0)
  step = step_lib.TrainStep(task, sgd, clip_norm=1e-3)
  state = step.init()
  after, metrics = jax.jit(step, static_argnums=2)(state, batch(), 1)
  assert metrics["grad_norm"] > 1e-2
  moved = jax.tree.map(jnp.subtract, after["params"], state["params"])
  np.testing.assert_allclose(optax.global_norm(moved), 1e-3, rtol=1e-3)
