import subprocess
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

from ctrl_jax import errors
from ctrl_jax.training import sharding, trainable

RULES = sharding.ShardingRules()


def test_spec_translates_and_refuses():
  assert RULES.spec(("layers", "embed", "heads")) == P(None, "fsdp", "tensor")
  assert RULES.spec(("mlp_embed", "mlp")) == P(None, ("fsdp", "tensor"))
  assert RULES.spec(("vocab", "vocab_embed")) == P(("fsdp", "tensor"), None)
  with pytest.raises(ValueError, match="No sharding rule for axis 'kv'"):
    RULES.spec(("embed", "kv"))
  with pytest.raises(ValueError, match="two dimensions on one mesh axis"):
    RULES.spec(("heads", "mlp"))


def test_mesh_sizes():
  device = jax.devices()[:1]
  assert sharding.make_mesh(-1, 1, 1, device).shape["data"] == 1
  with pytest.raises(errors.UserError, match="there are 1"):
    sharding.make_mesh(2, 1, 1, device)
  with pytest.raises(errors.UserError, match="one may be -1"):
    sharding.make_mesh(-1, -1, 1, device)
  with pytest.raises(errors.UserError, match="at least 1"):
    sharding.make_mesh(0, 1, 1, device)


def test_leaf_without_axes_is_copied():
  mesh = sharding.make_mesh(1, 1, 1, jax.devices()[:1])
  boxed = {
      "a": nn.LogicallyPartitioned(jnp.zeros((4, 8)), ("embed", "heads")),
      "b": jnp.zeros(()),
  }
  result = sharding.shardings(mesh, RULES, boxed)
  assert result["a"].spec == P("fsdp", "tensor")
  assert result["b"].spec == P()


def test_what_has_a_parameters_shape_is_cut_as_the_parameter():
  box = nn.LogicallyPartitioned
  params = {
      "x": {"kernel": box(jnp.zeros((4, 8)), ("embed", "heads"))},
      "kernel": box(jnp.zeros((8,)), ("heads",)),
      "free": jnp.zeros((3,)),
  }
  state = optax.adam(1.0).init(nn.unbox(params))
  boxed = sharding.box_like(state, params)
  assert boxed[0].mu["x"]["kernel"].names == ("embed", "heads")
  assert boxed[0].nu["kernel"].names == ("heads",)
  jax.tree.map(np.testing.assert_array_equal, nn.unbox(boxed), state)
  # Of another shape: a column, Adafactor's factors, a count.
  other = {"x": {"kernel": jnp.zeros((4,))}, "kernel": [jnp.zeros((1,))]}
  assert not any(map(trainable.is_box, jax.tree.leaves(
      sharding.box_like(other, params), is_leaf=trainable.is_box
  )))


# Runs in a process of its own: the number of devices is fixed at the start.
_EIGHT_DEVICES = """
import sys
import jax, numpy as np
jax.config.update("jax_num_cpu_devices", 8)
import dataclasses, functools
from ctrl_jax.models.auxiliary import AuxiliaryConfig
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.tasks.auxiliary_tuning import AuxiliaryTuningTask
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.training import checksum, optimizer, sharding
from ctrl_jax.training import step as step_lib

assert jax.device_count() == 8
model = TransformerConfig(
    vocab_size=61, d_model=16, d_ff=32, num_layers=2, num_heads=4,
    max_length=8, dropout=0.1, dtype="float32", vocab_multiple=8,
)
rng = np.random.default_rng(0)
batches = [
    {"tokens": rng.integers(0, 61, (8, 9)).astype(np.int32),
     "weights": np.ones((8, 9), np.float32),
     "attribute": rng.integers(0, 61, (8, 3)).astype(np.int32),
     "attribute_length": rng.integers(0, 4, 8).astype(np.int32)}
    for _ in range(4)
]
rules = sharding.ShardingRules()

def run(devices, scan=False, model=model, auxiliary=False, **sizes):
  own = dataclasses.replace(model, scan_layers=scan)
  task = LanguageModelTask(own, 32)
  if auxiliary:
    task = AuxiliaryTuningTask(AuxiliaryConfig(
        own, attribute_length=3, d_model=8, d_ff=16, num_layers=1, num_heads=2,
        reused_layers=1,
    ), 0.2, 32)
  tx = optimizer.make(optimizer.OptimizerConfig(warmup_steps=0))
  step = step_lib.TrainStep(task, tx)
  mesh = sharding.make_mesh(**sizes, devices=devices)
  with sharding.use(mesh, rules):
    shards = sharding.shardings(mesh, rules, jax.eval_shape(step.init_boxed))
    state = jax.jit(step.init, out_shardings=shards)()
    start = checksum.tree_checksums(state)
    update = jax.jit(step, donate_argnums=0, out_shardings=(shards, None))
    losses = []
    for b in batches:
      b = jax.device_put(b, sharding.batch_sharding(mesh, rules))
      state, metrics = update(state, b)
      losses.append(float(metrics["loss"]))
    params = step_lib.all_params(state)
    kernel = params.get("base", params)["layers"]["up"]["kernel"]
    return start, losses, kernel

single = [run(jax.devices()[:1], auxiliary=a, data=1) for a in (False, True)]
for scan, auxiliary, sizes in (
    (False, False, dict(data=8)),
    (True, False, dict(data=2, fsdp=4)),
    (False, False, dict(data=2, fsdp=2, tensor=2)),
    (True, True, dict(data=2, fsdp=2, tensor=2)),
):
  start, losses, _ = single[auxiliary]
  sharded_start, sharded, kernel = run(
      jax.devices(), scan, auxiliary=auxiliary, **sizes
  )
  assert sharded_start == start, sizes  # The same initial model, to the bit.
  np.testing.assert_allclose(sharded, losses, rtol=2e-6, err_msg=str(sizes))
  parts = sizes.get("fsdp", 1) * sizes.get("tensor", 1)
  shard = kernel.addressable_shards[0].data
  assert shard.size * parts == kernel.size, (sizes, shard.shape)
llama = dataclasses.replace(
    model, positions="rotary", activation="swiglu", norm="rms", num_kv_heads=2,
    biases=False, head_bias=False, tied_head=False,
)
start, losses, _ = run(jax.devices()[:1], model=llama, data=1)
sizes = dict(data=2, fsdp=2, tensor=2)
sharded_start, sharded, _ = run(jax.devices(), True, llama, **sizes)
assert sharded_start == start
np.testing.assert_allclose(sharded, losses, rtol=2e-6, err_msg="llama")
try:
  model = dataclasses.replace(model, vocab_multiple=1)
  run(jax.devices(), model=model, data=1, fsdp=8)
except Exception as e:
  assert "vocab_multiple" in str(e), e
else:
  raise AssertionError("61 rows over 8 devices must be refused")
print("same")
"""


def test_eight_devices_give_the_losses_of_one():
  done = subprocess.run(
      [sys.executable, "-c", _EIGHT_DEVICES], capture_output=True, text=True,
      timeout=300,
  )
  assert done.stdout.strip() == "same", done.stderr[-3000:]
