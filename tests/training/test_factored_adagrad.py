import jax
import jax.numpy as jnp
import numpy as np
import optax

from ctrl_jax.training.factored_adagrad import factored_adagrad


def run(tx, params, gradients):
  """Returns the updates of each step, and the last state."""
  state, updates = tx.init(params), []
  for g in gradients:
    update, state = tx.update(g, state, params)
    updates.append(update)
  return updates, state


def test_two_steps_by_hand():
  """Rows' sums r, columns' c: s_ij = r_i c_j / mean(r), u = -lr g / sqrt(s)."""
  params = {"w": jnp.zeros((2, 2))}
  gradients = [
      {"w": jnp.array([[3.0, 1.0], [2.0, 4.0]])},
      {"w": jnp.array([[0.0, 2.0], [1.0, 1.0]])},
  ]
  tx = factored_adagrad(0.5, 0.1, min_dim_size_to_factor=2)
  updates, _ = run(tx, params, gradients)
  # Means of 0.1 + g^2: rows 5.1 and 10.1, columns 6.6 and 8.6.
  first = -0.5 * np.array([
      [3 / (5.1 * 6.6 / 7.6) ** 0.5, 1 / (5.1 * 8.6 / 7.6) ** 0.5],
      [2 / (10.1 * 6.6 / 7.6) ** 0.5, 4 / (10.1 * 8.6 / 7.6) ** 0.5],
  ])
  np.testing.assert_allclose(updates[0]["w"], first, rtol=1e-5)
  # To these come rows 2 and 1, columns 0.5 and 2.5.
  second = -0.5 * np.array([
      [0, 2 / (7.1 * 11.1 / 9.1) ** 0.5],
      [1 / (11.1 * 7.1 / 9.1) ** 0.5, 1 / (11.1 * 11.1 / 9.1) ** 0.5],
  ])
  np.testing.assert_allclose(updates[1]["w"], second, rtol=1e-5)


def normal(seed, shape):
  return jax.random.normal(jax.random.key(seed), shape)


def test_what_is_not_factored_is_adagrad():
  params = {"a": jnp.zeros((5,)), "b": jnp.zeros((4, 200))}
  gradients = [
      {"a": normal(2 * i, (5,)), "b": normal(2 * i + 1, (4, 200))}
      for i in range(7)
  ]
  rate = optax.linear_schedule(0.0, 0.3, 3)
  ours, _ = run(factored_adagrad(rate, 0.01), params, gradients)
  optaxs, _ = run(optax.adagrad(rate, 0.01), params, gradients)
  # optax adds 1e-7 to the sum.
  jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5), ours, optaxs
  )


def test_squares_of_rank_one_lose_nothing():
  """Stacked matrices, each with g_ij^2 = a_i b_j: the product is the sum."""
  a, b = normal(0, (3, 130, 1)) ** 2, normal(1, (3, 1, 140)) ** 2
  signs = jnp.sign(normal(2, (3, 130, 140)))
  gradients = [{"w": scale * signs * (a * b) ** 0.5} for scale in (1.0, 0.3)]
  params = {"w": jnp.zeros((3, 130, 140))}
  ours, state = run(factored_adagrad(0.1, 0.0), params, gradients)
  optaxs, _ = run(optax.adagrad(0.1, 0.0, eps=0.0), params, gradients)
  for x, y in zip(ours, optaxs):
    np.testing.assert_allclose(x["w"], y["w"], rtol=1e-4)
  assert state[0].v_row["w"].shape == (3, 130)
  assert state[0].v_col["w"].shape == (3, 140)


def test_adafactors_own_rule_without_the_initial_value():
  """optax.scale_by_factored_rms with a decay of 1 - 1/t keeps plain means."""
  params = {"w": jnp.zeros((150, 130))}
  gradients = [{"w": normal(i, (150, 130))} for i in range(4)]
  ours, _ = run(factored_adagrad(1.0, 0.0), params, gradients)
  rule = optax.scale_by_factored_rms(decay_rate=1.0)
  optaxs, _ = run(rule, params, gradients)
  for t, (x, y) in enumerate(zip(ours, optaxs), 1):
    np.testing.assert_allclose(x["w"], -y["w"] * t**-0.5, rtol=1e-4)


def test_state_is_a_thousandth_of_adagrads():
  shapes = {
      "table": jnp.zeros((4096, 1280)), "kernel": jnp.zeros((2, 1280, 8192)),
      "bias": jnp.zeros((2, 1280)),
  }
  count = lambda tx: sum(
      x.size for x in jax.tree.leaves(jax.eval_shape(tx.init, shapes))
  )
  factors = (4096 + 1280) + 2 * (1280 + 8192) + 2 * 1280
  # Besides, three counts and a placeholder for each array not kept.
  assert 0 <= count(factored_adagrad(0.1)) - factors <= 12
  assert count(factored_adagrad(0.1)) < 0.0011 * count(optax.adagrad(0.1))
