import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.tasks.annealing import Schedule


def test_half_low_a_quarter_up_a_quarter_high():
  schedule = Schedule(period=100, low=0.01)
  steps = jnp.arange(300)
  found = np.asarray(jax.vmap(schedule)(steps))
  np.testing.assert_array_equal(found[:100], found[100:200])
  np.testing.assert_allclose(found[:51], 0.01)
  np.testing.assert_allclose(found[50:76], np.linspace(0.01, 1, 26), rtol=1e-5)
  np.testing.assert_allclose(found[75:100], 1.0)


def test_late_steps_are_as_exact_as_early_ones():
  schedule = Schedule(period=1000)
  late = 10**9 // 1000 * 1000
  for step in (501, 640, 749):
    assert schedule(jnp.int32(late + step)) == schedule(jnp.int32(step))


def test_constant():
  assert Schedule("constant", high=0.3)(jnp.int32(7)) == np.float32(0.3)


@pytest.mark.parametrize("fields, message", [
    (dict(kind="linear"), "beta_schedule"),
    (dict(period=0), "beta_period"),
    (dict(low=2.0), "low <= high"),
    (dict(high=float("nan")), "low <= high"),
])
def test_bad_schedules(fields, message):
  with pytest.raises(errors.UserError, match=message):
    Schedule(**fields)
