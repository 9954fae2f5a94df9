import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ctrl_jax import errors
from ctrl_jax.training import optimizer


def test_learning_rate_is_the_papers():
  rate = optimizer.learning_rate(optimizer.OptimizerConfig())
  assert rate(0) == 0
  np.testing.assert_allclose(rate(12_500), 0.025)
  np.testing.assert_allclose(rate(25_000), 0.05)
  np.testing.assert_allclose(rate(800_000), 0.05)


def test_a_cosine_ends_at_0():
  rate = optimizer.learning_rate(optimizer.OptimizerConfig(
      learning_rate=0.01, warmup_steps=10, decay_steps=50
  ))
  steps = [0, 5, 10, 20, 30, 50]
  cosine = [0.5 + 0.5 * np.cos(np.pi * x) for x in (0, 0.25, 0.5, 1)]
  np.testing.assert_allclose(
      [rate(i) for i in steps], np.array([0, 0.5, *cosine]) * 0.01, rtol=1e-5,
      atol=1e-9,
  )
  at_once = optimizer.learning_rate(optimizer.OptimizerConfig(
      learning_rate=0.01, warmup_steps=0, decay_steps=4
  ))
  np.testing.assert_allclose(
      [at_once(0), at_once(2)], [0.01, 0.005], rtol=1e-5
  )


@pytest.mark.parametrize("steps", [9, 10, -1])
def test_a_decay_before_the_warm_up_ends(steps):
  with pytest.raises(errors.UserError, match=f"decay_steps={steps} must be"):
    optimizer.OptimizerConfig(warmup_steps=10, decay_steps=steps)


def test_adagrad_by_hand():
  """Acc = 0.1 + g^2; x -= lr g / sqrt(acc), after clipping to 0.25."""
  tx = optax.chain(
      optax.clip_by_global_norm(0.25),
      optimizer.make(optimizer.OptimizerConfig(warmup_steps=0)),
  )
  x = {"a": jnp.array([1.0, 2.0]), "b": jnp.array([3.0])}
  state = tx.init(x)
  gradients = [
      {"a": jnp.array([3.0, 0.0]), "b": jnp.array([4.0])},  # Norm 5: clipped.
      {"a": jnp.array([0.1, 0.0]), "b": jnp.array([0.2])},  # Norm 0.22: kept.
  ]
  a, b, acc_a, acc_b = 1.0, 3.0, 0.1, 0.1
  for g, scale in zip(gradients, (0.05, 1.0)):
    updates, state = tx.update(g, state, x)
    x = jax.tree.map(jnp.add, x, updates)
    ga, gb = float(g["a"][0]) * scale, float(g["b"][0]) * scale
    acc_a, acc_b = acc_a + ga**2, acc_b + gb**2
    a -= 0.05 * ga / acc_a**0.5
    b -= 0.05 * gb / acc_b**0.5
  np.testing.assert_allclose(x["a"], [a, 2.0], rtol=1e-5)
  np.testing.assert_allclose(x["b"], [b], rtol=1e-5)


@pytest.mark.parametrize(
    "name, rate",
    [("adagrad", 0.5), ("adam", 0.1), ("adafactor", 0.1), ("sm3", 0.5),
     ("novograd", 0.1)],
)
def test_each_optimizer_descends(name, rate):
  tx = optimizer.make(optimizer.OptimizerConfig(
      name, rate, warmup_steps=0, clip_norm=1.0
  ))
  x = {"w": jnp.full((4, 4), 2.0)}
  state = tx.init(x)
  f = jax.jit(jax.value_and_grad(lambda x: (x["w"] ** 2).sum()))
  before = f(x)[0]
  for _ in range(30):
    updates, state = tx.update(f(x)[1], state, x)
    x = jax.tree.map(jnp.add, x, updates)
  assert f(x)[0] < 0.5 * before


def test_unknown_name_suggests_the_nearest():
  with pytest.raises(errors.UserError, match="'adagrad'"):
    optimizer.OptimizerConfig(name="adagrd")


@pytest.mark.parametrize(
    "fields",
    [
        dict(learning_rate=0.0), dict(learning_rate=float("nan")),
        dict(learning_rate=float("inf")), dict(clip_norm=float("nan")),
        dict(initial_accumulator=-1.0),
    ],
)
def test_bad_values(fields):
  with pytest.raises(errors.UserError, match="above 0"):
    optimizer.OptimizerConfig(**fields)
