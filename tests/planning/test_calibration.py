import pytest

from ctrl_jax import config as config_lib
from ctrl_jax import errors, plan
from ctrl_jax.models import transformer
from ctrl_jax.planning import calibration, chips, costs, topologies
from ctrl_jax.tasks import make as tasks


@pytest.mark.parametrize("run, billions", [
    # "1.4B": 48 layers of 12 * 1536^2, and 50,257 + 1,024 rows.
    ("levanter", 1.44),
    ("maxtext", 8.03),
])
def test_is_the_model_that_was_measured(run, billions):
  c = plan.resolve(calibration.get_config(run), "tpu")
  model = tasks.make(c, c.tokenizer.vocab_size).model
  count = transformer.num_parameters(model)
  assert count / 1e9 == pytest.approx(billions, abs=0.01)


def test_another_run():
  with pytest.raises(errors.UserError, match="calibration.py:maxtex: no such"):
    calibration.get_config("maxtex")


@pytest.mark.parametrize("run", [calibration.LEVANTER, calibration.MAXTEXT])
def test_measured_is_below_the_bound(run):
  assert 0.5 < run.ratio < 1
  assert run.compiler < run.bound
  assert run.topology.partition(":")[0] in chips.CHIPS


def test_maxtexts_utilisation_is_its_step_times():
  """4.546 seconds, by arithmetic as counted here."""
  c = calibration.get_config("maxtext")
  length = c.data.sequence_length
  task = tasks.make(plan.resolve(c, "tpu"), c.tokenizer.vocab_size)
  tokens = c.train.batch_size * length / 256
  # As it printed: tokens/s a device.
  assert tokens / 4.546 == pytest.approx(7207.336, rel=1e-3)
  mfu = tokens * task.flops_per_token(length) / chips.CHIPS["v6e"].peak / 4.546
  assert mfu == pytest.approx(calibration.MAXTEXT.measured, abs=5e-4)


def test_what_waits_for_scores():
  chip = chips.Chip(peak=1e12, memory=1, bandwidth=1e9, link=1.0)
  block = "jit(f)/while/body/checkpoint/Block"
  product = costs.Product(128, 128, 128)
  one = 2 * 128**3 / 1e12
  operations = [
      # A second each for memory, but the arithmetic.
      costs.Operation("a", f"{block}/bhtk,bhsk->bhts/dot_general", 3,
                      (product,), 10**9),
      # Passes over scores.
      costs.Operation("b", f"{block}/convert_element_type", 2, (), 10**9),
      # None of it: another product, a norm, something small, a message.
      costs.Operation("c", f"{block}/up/dot_general", 5, (product,), 10**9),
      costs.Operation("d", f"{block}/norm1/reduce_sum", 5, (), 10**9),
      costs.Operation("e", f"{block}/reduce_sum", 5, (), 10**6),
      costs.Operation("f", f"{block}/reduce_sum", 5, (), 10**9, "all-reduce"),
  ]
  found = calibration.scores_seconds(operations, chip)
  assert found == pytest.approx(3 * (1 - one) + 2)


@pytest.mark.parametrize("grouped", [False, True])
def test_our_attentions_operations_are_found(grouped):
  """By JAX's names for them, in a program of ours."""
  c = config_lib.default()
  c.model.update(dict(
      d_model=32, d_ff=32, num_layers=1, num_heads=4, max_length=16,
      num_kv_heads=2 if grouped else 4,
  ))
  c.data.sequence_length, c.tokenizer.vocab_size = 16, 50
  c.train.batch_size = 2
  program = plan.compile_update(
      plan.resolve(c, "cpu"), topologies.find("cpu:1")
  )
  found = [
      o for o in program.operations
      if calibration._PRODUCTS.search(o.op_name) and o.products
  ]
  # Two forward, four backward.
  assert sum(len(o.products) * o.times for o in found) == 6
