import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from task_runs import batch, three_updates

from ctrl_jax.models import transformer
from ctrl_jax.models.auxiliary import AuxiliaryConfig, LinenAuxiliary
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.tasks.auxiliary_tuning import AuxiliaryTuningTask
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.training import optimizer
from ctrl_jax.training import step as step_lib

BASE = TransformerConfig(
    vocab_size=31, d_model=16, d_ff=32, num_layers=2, num_heads=2, max_length=8,
    dropout=0.5, dtype="float32", vocab_multiple=8,
)
SIZES = dict(
    attribute_length=3, d_model=8, d_ff=16, num_layers=1, num_heads=2,
    reused_layers=1, dropout=0.0,
)


class Recurrent(nn.Module):
  """A GRU that begins with the mean of the attribute's embeddings."""

  features: int

  @nn.compact
  def __call__(self, attribute, length, ids):
    embed = nn.Embed(31, 8)
    real = jnp.arange(attribute.shape[1])[None] < length[:, None]
    start = (embed(attribute) * real[..., None]).sum(1)
    cell = nn.GRUCell(8)
    states = nn.RNN(cell)(embed(ids), initial_carry=start)
    return nn.Dense(
        self.features, kernel_init=nn.initializers.zeros
    )(states)


AUXILIARIES = {
    "feature": AuxiliaryConfig(BASE, "feature", **SIZES),
    "independent": AuxiliaryConfig(BASE, "independent", **SIZES),
    "gate": AuxiliaryConfig(BASE, "feature", "gate", **SIZES),
    "gru": LinenAuxiliary(BASE, Recurrent(16), 3),
    "gru logits": LinenAuxiliary(BASE, Recurrent(32), 3, is_logits=True),
}


@functools.cache
def trained(name):
  """The initial state and one after three updates."""
  task = AuxiliaryTuningTask(AUXILIARIES[name], chunk_tokens=16)
  return task, *three_updates(task)


@pytest.mark.parametrize("name", AUXILIARIES)
def test_at_step_0_the_model_is_the_frozen_one(name):
  task, state, _, _ = trained(name)
  params = step_lib.all_params(state)
  found, rows = task.loss(params, batch(), None)
  alone = LanguageModelTask(BASE, chunk_tokens=16)
  expected, base_rows = alone.loss(params["base"], batch(), None)
  np.testing.assert_array_equal(found, expected)
  np.testing.assert_array_equal(rows["nll"], base_rows["nll"])


@pytest.mark.parametrize("name", AUXILIARIES)
def test_the_frozen_model_stays_to_the_bit_and_has_no_state(name):
  task, first, last, losses = trained(name)
  assert set(last["frozen"]) == {"base"} and set(last["params"]) == {
      "auxiliary"
  }
  jax.tree.map(
      np.testing.assert_array_equal, first["frozen"], last["frozen"]
  )
  size = lambda tree: sum(x.size for x in jax.tree.leaves(tree))
  assert size(last["opt_state"][0].mu) == size(last["params"])
  assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", AUXILIARIES)
def test_the_loss_is_that_of_the_sum_of_logits(name):
  task, _, state, _ = trained(name)
  params = step_lib.all_params(state)
  b = batch()
  ids = b["tokens"][:, :-1]
  hidden, taps = transformer.hidden_states_with_taps(
      BASE, params["base"], ids, task.auxiliary.taps
  )
  output = task.auxiliary.output(
      params["auxiliary"], params["base"], ids, taps, b["attribute"],
      b["attribute_length"],
  )
  logits = transformer.head(BASE, params["base"], hidden)
  table = params["base"]["embedding"]["table"]
  if output.is_logits:
    logits += output.hidden[..., :31]
  elif output.table is not None:
    logits += (output.hidden @ output.table.T)[..., :31]
  else:
    shift = task.auxiliary.shift(params["auxiliary"], hidden, output.hidden)
    logits += (shift @ table.T)[..., :31]
  nll = optax.softmax_cross_entropy_with_integer_labels(
      logits, b["tokens"][:, 1:]
  )
  total, rows = task.loss(params, b, None)
  expected = (nll * b["weights"][:, 1:]).sum(1)
  np.testing.assert_allclose(rows["nll"], expected, rtol=1e-4, atol=1e-4)
  np.testing.assert_allclose(total, expected.sum(), rtol=1e-5)


@pytest.mark.parametrize("name", AUXILIARIES)
def test_gradients_are_those_of_the_whole_logits(name):
  task, _, state, _ = trained(name)
  params = step_lib.all_params(state)
  b = batch()

  def plain(auxiliary):
    ids = b["tokens"][:, :-1]
    hidden, taps = transformer.hidden_states_with_taps(
        BASE, params["base"], ids, task.auxiliary.taps
    )
    output = task.auxiliary.output(
        auxiliary, params["base"], ids, taps, b["attribute"],
        b["attribute_length"],
    )
    if output.is_logits:
      extra = output.hidden
    elif output.table is not None:
      extra = output.hidden @ output.table.T
    else:
      shift = task.auxiliary.shift(auxiliary, hidden, output.hidden)
      extra = shift @ params["base"]["embedding"]["table"].T
    logits = transformer.head(BASE, params["base"], hidden) + extra[..., :31]
    nll = optax.softmax_cross_entropy_with_integer_labels(
        logits, b["tokens"][:, 1:]
    )
    return (nll * b["weights"][:, 1:]).sum()

  ours = lambda a: task.loss(params | {"auxiliary": a}, b, None)[0]
  jax.tree.map(
      lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-4),
      jax.grad(ours)(params["auxiliary"]), jax.grad(plain)(params["auxiliary"]),
  )


def test_attribute_dropout_leaves_attributes_out():
  auxiliary = AUXILIARIES["feature"]
  _, _, state, _ = trained("feature")
  params = step_lib.all_params(state)
  b = batch()
  rows = lambda rate, b, key: AuxiliaryTuningTask(auxiliary, rate, 16).loss(
      params, b, key
  )[1]["nll"]
  key = jax.random.key(0)
  none = rows(0.0, b | {"attribute_length": 0 * b["attribute_length"]}, None)
  np.testing.assert_array_equal(rows(0.9999, b, key), none)
  np.testing.assert_array_equal(rows(0.0, b, key), rows(0.0, b, None))
  # In evaluation none is left out.
  np.testing.assert_array_equal(rows(0.9999, b, None), rows(0.0, b, None))
  assert (none != rows(0.0, b, None)).any()


@pytest.mark.parametrize("kind", ["feature", "independent"])
def test_logits_converge_to_the_log_posterior_of_the_attribute(kind):
  """Equation 2: softmax(base + aux) = P(x|x', a) iff aux = log P(a|x, x').

  A language of two tokens, x' then x: x is drawn from `unigram` whatever x' is,
  and the attribute from `posterior[a, x, x']`, which does not say anything of
  x' alone. So the frozen model, the unigram, is exactly P(x|x').
  """
  size = 5
  rng = np.random.default_rng(0)
  unigram = rng.dirichlet(np.full(size, 5.0))
  lean = rng.uniform(-0.4, 0.4, (size, size))
  lean -= (unigram[:, None] * lean).sum(0)
  posterior = np.stack([0.5 + lean, 0.5 - lean])
  config = TransformerConfig(
      vocab_size=size, d_model=16, d_ff=32, num_layers=1, num_heads=2,
      max_length=2, dropout=0.0, dtype="float32",
  )
  auxiliary = AuxiliaryConfig(
      config, kind, attribute_length=1, d_model=16, d_ff=32, num_layers=1,
      num_heads=2, reused_layers=0, dropout=0.0,
  )
  task = AuxiliaryTuningTask(auxiliary)
  # Falls to nothing: a constant rate would end somewhere around the optimum.
  rate = optax.cosine_decay_schedule(0.01, 600)
  step = step_lib.TrainStep(task, optax.adam(rate))
  state = step.init()
  base = state["frozen"]["base"]
  base["final_norm"] = jax.tree.map(jnp.zeros_like, base["final_norm"])
  base["head"] = {"bias": jnp.log(jnp.asarray(unigram, jnp.float32))}
  # Every case once, weighed by its probability: no sampling noise.
  a, x, before = np.meshgrid(range(2), range(size), range(size), indexing="ij")
  probability = unigram[x] * posterior[a, x, before] / size
  column = lambda v: jnp.asarray(v.reshape(-1, 1), jnp.int32)
  cases = {
      "tokens": jnp.concatenate([column(before), column(x)], 1),
      "weights": jnp.repeat(
          jnp.asarray(100 * probability.reshape(-1, 1), jnp.float32), 2, 1
      ),
      "attribute": column(a),
      "attribute_length": jnp.ones(a.size, jnp.int32),
  }
  update = jax.jit(step, donate_argnums=0)
  for _ in range(600):
    state, _ = update(state, cases)
  params = step_lib.all_params(state)
  ids = column(before)
  hidden, taps = transformer.hidden_states_with_taps(
      config, params["base"], ids, auxiliary.taps
  )
  output = auxiliary.output(
      params["auxiliary"], params["base"], ids, taps, cases["attribute"],
      cases["attribute_length"],
  )
  table = output.table
  if table is None:
    table = params["base"]["embedding"]["table"]
  logits = (output.hidden @ table.T)[:, 0].reshape(2, size, size, size)[:, 0]
  expected = np.log(posterior).swapaxes(1, 2)  # [a, x', x].
  centre = lambda v: v - v.mean(-1, keepdims=True)
  np.testing.assert_allclose(centre(logits), centre(expected), atol=0.001)


def costly(**changes):
  """An auxiliary's update of some size, and the shapes of a batch of it."""
  base = TransformerConfig(
      vocab_size=512, d_model=64, d_ff=256, num_layers=6, num_heads=4,
      max_length=64, dropout=0.0, dtype="float32", scan_layers=False,
  )
  auxiliary = AuxiliaryConfig(base, **dict(
      attribute_length=4, reused_layers=2, d_model=32, d_ff=128,
      num_layers=2, num_heads=4, dropout=0.0,
  ) | changes)
  task = AuxiliaryTuningTask(auxiliary, chunk_tokens=10_000)
  rule = optimizer.make(optimizer.OptimizerConfig("adam", 0.01, 0))
  length = auxiliary.attribute_length
  return step_lib.TrainStep(task, rule), {
      "tokens": jax.ShapeDtypeStruct((8, 65), jnp.int32),
      "weights": jax.ShapeDtypeStruct((8, 65), jnp.uint8),
      "attribute": jax.ShapeDtypeStruct((8, length), jnp.int32),
      "attribute_length": jax.ShapeDtypeStruct((8,), jnp.int32),
  }


def flops(f, *args):
  return jax.jit(f).lower(*args).compile().cost_analysis()["flops"]


@pytest.mark.parametrize("changes", [
    {}, dict(attribute_length=32), dict(combination="gate"),
    dict(kind="independent"),
])
def test_flops_are_those_that_the_compiler_counts(changes):
  """But for the masked half of attention, and what is no matrix product."""
  step, shapes = costly(**changes)
  counted = flops(step, jax.eval_shape(step.init), shapes)
  told = 8 * 64 * step.task.flops_per_token(64)
  assert 1 <= counted / told < 1.2


def test_a_step_costs_the_bases_forward_and_three_of_the_auxiliarys():
  """By the compiler's count, at most 1.1 times that; no base gradient."""
  step, shapes = costly()
  task, rule = step.task, step.optimizer
  auxiliary, base = task.auxiliary, task.model
  state = jax.eval_shape(step.init)
  whole = flops(step, state, shapes)
  params = jax.eval_shape(step_lib.all_params, state)
  ids = jax.ShapeDtypeStruct((8, 64), jnp.int32)

  def base_forward(params, ids):
    hidden = transformer.hidden_states(base, params, ids)
    return transformer.head(base, params, hidden)

  def auxiliary_forward(params, ids, taps, attribute, length):
    output = auxiliary.output(
        params["auxiliary"], params["base"], ids, taps, attribute, length
    )
    return output.hidden

  base_cost = flops(base_forward, params["base"], ids)
  taps = (jax.ShapeDtypeStruct((8, 64, 64), jnp.float32),)
  own_cost = flops(
      auxiliary_forward, params, ids, taps, shapes["attribute"],
      shapes["attribute_length"],
  )
  # The gradient through the frozen table to the sum of hidden states is the
  # auxiliary's: without it, nothing would reach it.
  head_gradient = 2 * 8 * 64 * base.d_model * base.vocab_size
  assert whole <= 1.1 * (base_cost + 3 * own_cost + head_gradient)
  full = step_lib.TrainStep(LanguageModelTask(base, 10_000), rule)
  both = {k: shapes[k] for k in ("tokens", "weights")}
  assert whole < 0.75 * flops(full, jax.eval_shape(full.init), both)
