import dataclasses

import jax
import numpy as np
import pytest

from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.planning import compile as compile_lib
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.training import optimizer, sharding
from ctrl_jax.training import step as step_lib

MODEL = TransformerConfig(
    vocab_size=256, d_model=64, d_ff=128, num_layers=3, num_heads=4,
    max_length=16, dtype="float32", scan_layers=True,
)
BATCH = {
    "tokens": jax.ShapeDtypeStruct((4, 17), np.int32),
    "weights": jax.ShapeDtypeStruct((4, 17), np.uint8),
}


def train(model=MODEL, accumulate=1):
  update = optimizer.make(optimizer.OptimizerConfig())
  step = step_lib.TrainStep(
      LanguageModelTask(model, 16), update, accumulate=accumulate
  )
  mesh = sharding.make_mesh(1, 1, 1, devices=jax.devices("cpu")[:1])
  return compile_lib.train_step(step, BATCH, mesh, sharding.ShardingRules())


def flops(program):
  return sum(o.times * o.flops for o in program.operations)


@pytest.fixture(scope="module")
def program():
  return train()


def test_arithmetic_is_the_models_three_times(program):
  tokens, m = 4 * 16, MODEL
  products = m.num_layers * (4 * m.d_model**2 + 2 * m.d_model * m.d_ff)
  products += m.vocab_size * m.d_model
  # Attention in one block of all 16 positions: 2 products of [T, T] forward
  # and 4 backward, where two more are those of the forward pass.
  attention = m.num_layers * 16 * m.d_model * 2
  assert flops(program) == 3 * 2 * tokens * (products + attention)


def test_state_is_donated(program):
  parameters = sum(
      int(np.prod(x.shape)) for x in jax.tree.leaves(
          jax.eval_shape(LanguageModelTask(MODEL).init, jax.random.key(0))
      )
  )
  # Parameters and Adagrad's sums, all in float32.
  assert program.memory.donated == pytest.approx(8 * parameters, rel=0.01)
  assert program.memory.arguments - program.memory.donated < 2000  # The batch.
  assert program.memory.results < 2000


def test_recomputation_costs_a_forward_pass_of_the_layers(program):
  full = train(dataclasses.replace(MODEL, remat="full"))
  layers = 2 * 64 * 3 * (4 * 64**2 + 2 * 64 * 128)
  more = flops(full) - flops(program)
  # The last product of a layer need not be recomputed.
  assert 0.6 * layers < more < 1.2 * layers
  assert full.memory.temporaries < program.memory.temporaries


def test_micro_batches_do_the_same_work(program):
  assert flops(train(accumulate=2)) == flops(program)


def test_decoding_reads_the_parameters_and_the_cache_once():
  program = compile_lib.decode_block(MODEL, 2, 5, jax.devices("cpu")[0])
  m = MODEL
  products = m.num_layers * (4 * m.d_model**2 + 2 * m.d_model * m.d_ff)
  attention = m.num_layers * m.max_length * m.d_model * 2
  assert flops(program) == 5 * 2 * 2 * (
      products + attention + m.vocab_size * m.d_model
  )
  cache = 2 * m.num_layers * 2 * m.max_length * m.d_model * 4
  assert program.memory.arguments > 4 * products + cache
  assert program.memory.donated >= cache


def test_needed_bytes():
  message = "Ran out of memory in memory space hbm. Used 33.5G of 15.48G hbm."
  assert compile_lib.needed_bytes(message) == int(33.5 * 2**30)
  message = "required for HLO temporaries (18.5G) exceeds available HBM (15.4G)"
  assert compile_lib.needed_bytes(message) == int(18.5 * 2**30)
  assert compile_lib.needed_bytes("no idea") == 0
