"""What the published model's configuration must reach on named slices.

Compiling for them takes from one to ten minutes each:

  bash launch/test.sh -m slow tests/planning
"""

import importlib.util
import math
import os

import jax
import pytest
from flax import linen as nn
from jax.sharding import AbstractMesh
from test_configs import load

from ctrl_jax import config as config_lib
from ctrl_jax import plan
from ctrl_jax.planning import topologies
from ctrl_jax.tasks import make as tasks
from ctrl_jax.training import sharding
from ctrl_jax.training import step as step_lib

GIB = 2**30

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason='the TPU compiler is not installed: pip install -e ".[tpu]"',
)


def config(name="ctrl_1b", **overrides):
  c, _ = load(name)
  c.update_from_flattened_dict(overrides)
  return plan.resolve(c, "tpu")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
  for name in list(os.environ):  # Undone afterwards.
    monkeypatch.setenv(name, os.environ[name])
  topologies.prepare_environment()


@pytest.mark.parametrize("devices", [8, 16, 256])
def test_parameters_and_optimizer_state_are_cut_over_all_devices(devices):
  c = config()
  task = tasks.make(c, c.tokenizer.vocab_size)
  boxed = jax.eval_shape(step_lib.from_config(c, task).init_boxed)
  shardings = sharding.shardings(
      AbstractMesh((1, devices, 1), sharding.AXES),
      sharding.ShardingRules(), boxed,
  )
  arrays = jax.tree.leaves(nn.unbox(boxed))
  for x, cut in zip(arrays, jax.tree.leaves(shardings), strict=True):
    if x.ndim:
      share = math.prod(cut.shard_shape(x.shape))
      assert share * devices == x.size, (x.shape, cut.spec)


def check_structure(c, program):
  """No array of tokens x vocabulary, nothing but parameters sent by layers."""
  model = tasks.make(c, c.tokenizer.vocab_size).model
  devices = len(program.devices)
  rows = model.padded_vocab_size
  most = max(c.train.loss_chunk, c.train.batch_size, model.d_model)
  computations = program.module.computations
  lines = [i for c in computations.values() for i in c.instructions.values()]
  # What is inside of a fusion has no buffer.
  fused = {i.called("calls") for i in lines if i.opcode == "fusion"}
  for name in computations.keys() - fused:
    for i in computations[name].instructions.values():
      for shape in i.shapes:
        for v in {rows, rows // devices} & set(shape.dims):
          assert math.prod(shape.dims) <= v * most, (i.name, shape)
  layers = [
      o for o in program.operations
      if o.collective and o.times == model.num_layers
  ]
  assert layers
  # bfloat16, and not the least of it an activation of the whole batch.
  kernels = 2 * (4 * model.d_model**2 + 2 * model.d_model * model.d_ff)
  for o in layers:
    assert o.message <= 1.1 * kernels, (o.name, o.op_name)
  # Every leaf of the state is taken over: parameters, sums, counters.
  leaves = len(jax.tree.leaves(jax.eval_shape(
      lambda: step_lib.from_config(
          c, tasks.make(c, c.tokenizer.vocab_size)
      ).init()
  )))
  assert program.module.aliases == set(range(leaves))


@needs_libtpu
def test_a_small_model_on_four_chips():
  c = config_lib.default()
  c.model.update(dict(
      d_model=128, d_ff=512, num_layers=3, num_heads=2, max_length=64,
      vocab_multiple=1024, remat="full",
  ))
  c.data.sequence_length = 64
  c.tokenizer.vocab_size = 3000
  c.train.update(dict(batch_size=32, loss_chunk=64))
  c.mesh.update(dict(data=1, fsdp=-1))
  c = plan.resolve(c, "tpu")
  topology = topologies.find("v3:2x2")
  program = plan.compile_update(c, topology)
  check_structure(c, program)
  found = plan.estimate(c, topology, program)
  assert found["memory"]["fits"]
  # Forward, its recomputation and twice that backward; attention not halved.
  assert 1.1 < found["flops"] / found["model_flops"] < 1.5
  assert 0 < found["full_overlap"]["seconds"] < found["no_overlap"]["seconds"]


@needs_libtpu
@pytest.mark.slow
def test_the_papers_slice_with_the_configurations_own_settings():
  c = config()
  topology = topologies.find("v3:8x16")
  program = plan.compile_update(c, topology)
  check_structure(c, program)
  found = plan.estimate(c, topology, program)
  assert found["memory"]["fits"]
  assert found["no_overlap"]["mfu"] >= 0.5
  assert found["expected"]["mfu"] >= 0.45


@needs_libtpu
@pytest.mark.slow
@pytest.mark.parametrize(
    "name, slice_, overrides, temporaries",
    [
        ("ctrl_1b", "v3:8x16", {"model.remat": "full"}, 1.5),
        ("ctrl_1b_512", "v3:8x16", {"model.remat": "full"}, 3.0),
        ("ctrl_1b", "v3:8x16", {"model.remat": "none"}, 5.7),
        ("ctrl_1b_512", "v3:8x16", {}, 4.0),
        ("ctrl_1b", "v5e:2x4", {"train.batch_size": 64}, 14.0),
        ("ctrl_1b", "v5e:4x4", {"model.remat": "full"}, 14.0),
        ("ctrl_1b", "v6e:4x4", {"model.remat": "full"}, 30.0),
    ],
)
def test_memory_on_named_slices(name, slice_, overrides, temporaries):
  c = config(name, **overrides)
  topology = topologies.find(slice_)
  program = plan.compile_update(c, topology)
  found = plan.estimate(c, topology, program)["memory"]
  assert found["fits"]
  assert found["temporaries"] <= temporaries * GIB


@needs_libtpu
@pytest.mark.slow
@pytest.mark.parametrize(
    "name, overrides, peak",
    [
        ("ctrl_1b_16gb", {}, 12.0),
        ("ctrl_1b_16gb",
         {"data.sequence_length": 512, "model.max_length": 512}, 13.0),
        ("ctrl_1b_auxiliary_16gb", {}, 5.0),
    ],
)
def test_one_chip_of_16_gb(name, overrides, peak, monkeypatch):
  monkeypatch.delenv("CTRL_JAX_MODEL", raising=False)
  c = config(name, **overrides)
  assert c.train.batch_size >= 16 and c.data.sequence_length >= 256
  topology = topologies.find("v5e:1x1")
  program = plan.compile_update(c, topology)
  found = plan.estimate(c, topology, program)["memory"]
  assert found["peak"] <= peak * GIB
