import dataclasses
import functools

import flax.linen as nn
import jax
import numpy as np
import optax
import pytest
from side_configs import BASE, SAME, SIDES
from task_runs import batch, three_updates

from ctrl_jax.models import side, transformer
from ctrl_jax.models.side import SideConfig
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.tasks.side_tuning import SideTuningTask
from ctrl_jax.training import step as step_lib


@functools.cache
def trained(name):
  """The initial state and one after three updates."""
  task = SideTuningTask(SIDES[name], chunk_tokens=16)
  return task, *three_updates(task)


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
