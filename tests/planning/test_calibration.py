import pytest

from ctrl_jax import plan
from ctrl_jax.models import transformer
from ctrl_jax.planning import calibration
from ctrl_jax.tasks import make as tasks


def test_is_the_model_that_was_measured():
  c = plan.resolve(calibration.get_config(), "tpu")
  model = tasks.make(c, c.tokenizer.vocab_size).model
  # "1.4B": 48 layers of 12 * 1536^2, and 50,257 + 1,024 rows.
  count = transformer.num_parameters(model)
  assert count / 1e9 == pytest.approx(1.44, abs=0.01)


def test_measured_is_below_the_bound():
  run = calibration.LEVANTER
  assert 0.5 < run.ratio < 1
  assert run.compiler < run.bound
  assert run.topology == "v3:8x16"
