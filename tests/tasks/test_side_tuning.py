import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from task_runs import batch, three_updates

from ctrl_jax import errors
from ctrl_jax.models import side, transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.side import SideConfig
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.tasks.side_tuning import SideTuningTask
from ctrl_jax.training import step as step_lib

BASE = TransformerConfig(
    vocab_size=31, d_model=16, d_ff=32, num_layers=2, num_heads=2, max_length=8,
    dropout=0.5, dtype="float32", vocab_multiple=8,
)
SAME = dict(d_model=16, d_ff=32, num_layers=1, num_heads=2, dropout=0.0)
NARROW = dict(SAME, d_model=8, d_ff=16)
SIDES = {
    "first layers": SideConfig(BASE, **SAME),
    "random": SideConfig(BASE, init="random", **SAME),
    "narrow": SideConfig(BASE, init="random", **NARROW),
    "sum": SideConfig(BASE, "sum", **SAME),
}


@functools.cache
def trained(name):
  """The initial state and one after three updates."""
  task = SideTuningTask(SIDES[name], chunk_tokens=16)
  return task, *three_updates(task)


def test_the_formula_by_hand():
  """R = sigmoid(a) B + (1 - sigmoid(a)) S, to the numbers."""
  config = SIDES["random"]
  b, s = jnp.array([[1.0, -2.0]]), jnp.array([[3.0, 6.0]])
  found = lambda a: np.asarray(b + side.shift(config, {"a": a}, b, s))
  np.testing.assert_allclose(found(jnp.float32(0.0)), [[2.0, 2.0]])
  a = jnp.log(3.0)  # sigmoid: 3/4.
  np.testing.assert_allclose(found(a), [[1.5, 0.0]], atol=1e-6)
  total = b + side.shift(SIDES["sum"], {}, b, s)
  np.testing.assert_allclose(total, [[4.0, 4.0]])


@pytest.mark.parametrize("name", SIDES)
def test_loss_and_gradient_are_those_of_the_merged_states(name):
  task, _, state, _ = trained(name)
  params = step_lib.all_params(state)
  b = batch()

  def plain(own):
    ids = b["tokens"][:, :-1]
    hidden = transformer.hidden_states(BASE, params["base"], ids)
    other = side.hidden_states(task.side, own, params["base"], ids)
    if task.side.merge == "sum":
      merged = hidden + other
    else:
      alpha = jax.nn.sigmoid(own["a"])
      merged = alpha * hidden + (1 - alpha) * other
    logits = transformer.head(BASE, params["base"], merged)
    nll = optax.softmax_cross_entropy_with_integer_labels(
        logits, b["tokens"][:, 1:]
    )
    return (nll * b["weights"][:, 1:]).sum()

  ours = lambda own: task.loss(params | {"side": own}, b, None)[0]
  found, gradient = jax.value_and_grad(ours)(params["side"])
  expected, wanted = jax.value_and_grad(plain)(params["side"])
  np.testing.assert_allclose(found, expected, rtol=1e-5)
  jax.tree.map(
      lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-4),
      gradient, wanted,
  )


@pytest.mark.parametrize("name", SIDES)
def test_the_frozen_model_stays_to_the_bit_and_has_no_state(name):
  task, first, last, losses = trained(name)
  assert set(last["frozen"]) == {"base"} and set(last["params"]) == {"side"}
  jax.tree.map(
      np.testing.assert_array_equal, first["frozen"], last["frozen"]
  )
  size = lambda tree: sum(x.size for x in jax.tree.leaves(tree))
  assert size(last["opt_state"][0].mu) == size(last["params"])
  assert losses[-1] < losses[0]
  own = last["params"]["side"]
  assert ("a" in own) == (task.side.merge == "alpha")
  assert ("input" in own) == (name == "narrow")
  if "a" in own:
    assert first["params"]["side"]["a"] == 0 and own["a"] != 0


def test_it_begins_as_the_first_layers():
  """A copy of all layers of the base is the base: S = B, so R = B."""
  config = dataclasses.replace(SIDES["first layers"], num_layers=2)
  task = SideTuningTask(config, 16)
  base = transformer.init(BASE, jax.random.key(3))
  start = task.begin(base)
  params = nn.unbox(task.init(jax.random.key(0)))
  assert set(start) == {"base", "side"}
  params = {"base": base, "side": params["side"] | start["side"]}
  found, _ = task.loss(params, batch(), None)
  expected, _ = LanguageModelTask(BASE, 16).loss(base, batch(), None)
  np.testing.assert_allclose(found, expected, rtol=1e-6)
  assert set(SideTuningTask(SIDES["random"]).begin(base)) == {"base"}


@pytest.mark.parametrize("name", ["first layers", "narrow"])
def test_causal_by_gradient(name):
  task, _, state, _ = trained(name)
  params = step_lib.all_params(state)
  ids = batch()["tokens"][:1, :-1]
  embedded = params["base"]["embedding"]["table"][ids[0]]

  def states(rows):
    table = params["base"]["embedding"]["table"].at[ids[0]].set(rows)
    base = dict(params["base"], embedding={"table": table})
    return side.hidden_states(task.side, params["side"], base, ids)[0].sum(-1)

  unique = len(set(ids[0].tolist())) == ids.shape[1]
  jacobian = np.asarray(jax.jacrev(states)(embedded)).__abs__().sum(-1)
  if unique:
    assert not np.triu(jacobian, 1).any()
  assert jacobian.diagonal().all()


def test_dropout_is_of_the_side_alone():
  quiet = SideTuningTask(SIDES["random"], 16)  # Its base has dropout 0.5.
  params = nn.unbox(quiet.init(jax.random.key(0)))
  key = jax.random.key(1)
  expected = quiet.loss(params, batch(), None)[0]
  np.testing.assert_allclose(quiet.loss(params, batch(), key)[0], expected)
  loud = SideTuningTask(dataclasses.replace(SIDES["random"], dropout=0.5), 16)
  assert loud.loss(params, batch(), key)[0] != expected


def test_flops():
  one, two = (
      SideTuningTask(SideConfig(BASE, init="random", **SAME | dict(
          num_layers=n
      ))).flops_per_token(8)
      for n in (1, 2)
  )
  layer = 4 * 16**2 + 2 * 16 * 32 + 8 * 16
  assert two - one == 6 * layer


@pytest.mark.parametrize("fields, message", [
    (dict(merge="mean"), "side.merge='mean'"),
    (dict(init="base"), "side.init='base'"),
    (dict(d_model=8), "side.d_model=8 is not the frozen model's 16"),
    (dict(num_layers=3), "side.num_layers=3 is more"),
    (dict(init="random", num_heads=3), "side.num_heads=3"),
    (dict(dropout=1.0), "side.dropout"),
])
def test_bad_configurations(fields, message):
  with pytest.raises(errors.UserError, match=message):
    SideConfig(BASE, **SAME | fields)
