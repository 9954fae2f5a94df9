import dataclasses
import functools

import flax.linen as nn
import jax
import numpy as np
import pytest
from task_runs import batch, three_updates

from ctrl_jax import errors
from ctrl_jax.models import lora, transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.lora import LoraConfig
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.tasks.lora import LoraTask
from ctrl_jax.training import optimizer
from ctrl_jax.training import step as step_lib

BASE = TransformerConfig(
    vocab_size=31, d_model=16, d_ff=32, num_layers=2, num_heads=2, max_length=8,
    dropout=0.0, dtype="float32", vocab_multiple=8,
)
LLAMA = dataclasses.replace(
    BASE, positions="rotary", activation="swiglu", norm="rms", biases=False,
    head_bias=False, scale_embedding=False, num_kv_heads=1, tied_head=False,
    scan_layers=True,
)
CONFIGS = {
    "ctrl": LoraConfig(BASE, rank=2, alpha=3.0),
    "llama": LoraConfig(
        LLAMA, ("query", "key", "value", "output", "up", "down", "gate"), 2
    ),
}


@functools.cache
def trained(name):
  """The initial state and one after three updates."""
  task = LoraTask(CONFIGS[name], chunk_tokens=16)
  return task, *three_updates(task)


@pytest.mark.parametrize("name", CONFIGS)
def test_at_step_0_the_model_is_the_frozen_one(name):
  task, state, _, _ = trained(name)
  params = step_lib.all_params(state)
  found, rows = task.loss(params, batch(), None)
  alone = LanguageModelTask(task.model, chunk_tokens=16)
  expected, base_rows = alone.loss(params["base"], batch(), None)
  np.testing.assert_array_equal(found, expected)
  np.testing.assert_array_equal(rows["nll"], base_rows["nll"])
  jax.tree.map(
      np.testing.assert_array_equal, task.plain(params), params["base"]
  )


@pytest.mark.parametrize("name", CONFIGS)
def test_only_the_additions_train(name):
  task, first, last, losses = trained(name)
  assert set(last["frozen"]) == {"base"} and set(last["params"]) == {"lora"}
  jax.tree.map(
      np.testing.assert_array_equal, first["frozen"], last["frozen"]
  )
  size = lambda tree: sum(x.size for x in jax.tree.leaves(tree))
  assert size(last["opt_state"][0].mu) == size(last["params"])
  assert losses[-1] < losses[0]
  assert set(last["params"]["lora"]["layers"]) == set(task.config.targets)
  moved = jax.tree.map(
      lambda a, b: bool((a != b).any()), first["params"], last["params"]
  )
  assert all(jax.tree.leaves(moved))


def low_rank_linear(kernel, a, b, scale, x):
  return x @ kernel + scale * ((x @ a) @ b)


@pytest.mark.parametrize("name", CONFIGS)
def test_merged_is_the_low_rank_path(name):
  """For each layer and matrix: x W' = x W + (alpha / r) (x A) B."""
  task, _, state, _ = trained(name)
  params = step_lib.all_params(state)
  merged = lora.merge(task.config, params["base"], params["lora"])
  scale = task.config.alpha / task.config.rank
  for target in task.config.targets:
    own = params["lora"]["layers"][target]
    kernel = params["base"]["layers"][target]["kernel"]
    x = jax.random.normal(jax.random.key(0), (5, kernel.shape[1]))
    for i in range(task.model.num_layers):
      expected = low_rank_linear(
          kernel[i], own["a"][i], own["b"][i], scale, x
      )
      found = x @ merged["layers"][target]["kernel"][i]
      np.testing.assert_allclose(found, expected, atol=1e-5)
  same = set(merged["layers"]) - set(task.config.targets)
  for other in same:
    assert merged["layers"][other] is params["base"]["layers"][other]


def test_a_is_kaiming_uniform_and_axes_follow_the_matrix():
  wide = dataclasses.replace(BASE, d_model=64, num_layers=3)
  boxed = lora.init_boxed(
      LoraConfig(wide, ("down", "query"), 8), jax.random.key(0)
  )
  down, query = boxed["layers"]["down"], boxed["layers"]["query"]
  assert down["a"].names == ("layers", "mlp", None)
  assert down["b"].names == ("layers", None, "mlp_embed")
  assert query["b"].names == ("layers", None, "heads")
  a = nn.unbox(query["a"])
  assert a.shape == (3, 64, 8)
  np.testing.assert_allclose(np.abs(a).max(), 1 / 8, rtol=0.05)
  np.testing.assert_allclose(a.std(), 1 / 8 / 3**0.5, rtol=0.05)
  assert not nn.unbox(query["b"]).any()


def test_accumulated_gradients_and_dropout():
  model = dataclasses.replace(BASE, dropout=0.5)
  task = LoraTask(LoraConfig(model, rank=2), 16)
  params = nn.unbox(task.init(jax.random.key(0)))
  one = task.loss(params, batch(), None)[0]
  assert task.loss(params, batch(), jax.random.key(1))[0] != one
  plain = LoraTask(CONFIGS["ctrl"], 16)
  step = step_lib.TrainStep(plain, optimizer.make(
      optimizer.OptimizerConfig("adam", 0.03, 0)
  ), accumulate=2)
  state, _ = jax.jit(step)(step.init(), batch())
  whole = step_lib.TrainStep(plain, step.optimizer)
  expected, _ = jax.jit(whole)(whole.init(), batch())
  jax.tree.map(
      lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5),
      state["params"], expected["params"],
  )


def test_flops():
  task = LoraTask(CONFIGS["ctrl"])
  whole = LanguageModelTask(BASE).flops_per_token(8)
  extra = 2 * 2 * 2 * 16 * 16  # Two layers, two matrices, a multiply-add.
  assert task.flops_per_token(8) == pytest.approx(whole * 2 / 3 + extra)


@pytest.mark.parametrize("fields, message", [
    (dict(targets=("q",)), "no matrix 'q'"),
    (dict(targets=("gate",)), "no matrix 'gate'"),
    (dict(targets=()), "one matrix or more"),
    (dict(targets=("up", "up")), "each once"),
    (dict(rank=0), "lora.rank=0"),
    (dict(rank=17), "lora.rank=17"),
    (dict(alpha=float("nan")), "lora.alpha"),
])
def test_bad_configurations(fields, message):
  with pytest.raises(errors.UserError, match=message):
    LoraConfig(BASE, **fields)


def test_one_name_is_a_tuple_of_one():
  assert LoraConfig(BASE, "value", 2).targets == ("value",)
  shape = transformer.init(BASE, jax.random.key(0))["layers"]["value"]
  assert shape["kernel"].shape == (2, 16, 16)
