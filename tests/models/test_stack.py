import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from model_configs import ALL, CTRL, LLAMA, random_params

from ctrl_jax.models import masks, stack, transformer


@pytest.mark.parametrize("scan", [True, False])
def test_parts_of_a_stack(scan):
  config = dataclasses.replace(CTRL, scan_layers=scan, num_layers=3)
  layers = random_params(config)["layers"]
  x = jax.random.normal(jax.random.key(2), (2, 5, 16))
  assert stack.depth(layers) == stack.depth(stack.unstack(layers)) == 3
  end, cache, taps = stack.apply_with_taps(config, layers, x, None, (0, 2, 3))
  assert cache is None
  np.testing.assert_array_equal(taps[0], x)
  np.testing.assert_array_equal(taps[2], end)
  for some in (layers, stack.unstack(layers)):
    found, _ = stack.apply(config, stack.first(some, 2), x, None)
    np.testing.assert_allclose(found, taps[1], atol=1e-6)


@pytest.mark.parametrize("order", ["halves", "pairs"])
def test_rotary_positions_are_those_given(order):
  config = dataclasses.replace(LLAMA, rotary_order=order)
  params = random_params(config)
  x = jax.random.normal(jax.random.key(2), (2, 5, 16))
  mask = masks.causal_mask(5)
  run = lambda positions: stack.apply(
      config, params["layers"], x, mask, positions=positions
  )[0]
  plain = run(None)
  np.testing.assert_array_equal(run(jnp.arange(5)[None]), plain)
  # Distances count, not where a row begins.
  shifted = run(jnp.arange(5)[None] + jnp.array([[0], [4]]))
  np.testing.assert_allclose(shifted, plain, atol=1e-4)
  assert (jnp.abs(run(2 * jnp.arange(5)[None]) - plain) > 1e-3).any()


@ALL
def test_scan_equals_unrolled_with_dropout(config):
  config = dataclasses.replace(config, dropout=0.3)
  params = random_params(config)
  ids = jnp.arange(16).reshape(2, 8)
  key = jax.random.key(5)

  def f(params, scan):
    c = dataclasses.replace(config, scan_layers=scan)
    hidden = transformer.hidden_states(c, params, ids, dropout_key=key)
    return (hidden**2).sum()

  for a, b in zip(
      jax.tree.leaves(jax.value_and_grad(f)(params, True)),
      jax.tree.leaves(jax.value_and_grad(f)(params, False)),
  ):
    np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("remat", ["full", "dots"])
@pytest.mark.parametrize("scan", [True, False])
def test_remat_changes_memory_not_gradients(remat, scan):
  params = random_params(CTRL)
  ids = jnp.arange(16).reshape(2, 8)

  def gradient(remat):
    c = dataclasses.replace(CTRL, remat=remat, scan_layers=scan, dropout=0.2)

    def f(params):
      key = jax.random.key(1)
      hidden = transformer.hidden_states(c, params, ids, dropout_key=key)
      return (hidden**2).sum()

    jaxpr = str(jax.make_jaxpr(jax.grad(f))(params))
    return jax.jit(jax.grad(f))(params), "remat" in jaxpr

  plain, has_remat = gradient("none")
  assert not has_remat
  rematerialised, has_remat = gradient(remat)
  assert has_remat
  jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
      plain, rematerialised,
  )


def with_extra_keys(config, scan):
  """(config, parameters, input [3, 7, D], 2 extra keys and values a layer)."""
  config = dataclasses.replace(config, scan_layers=scan)
  x = jax.random.normal(jax.random.key(3), (3, 7, 16))
  shape = (config.num_layers, 3, config.kv_heads, 2, config.head_size)
  extra = tuple(jax.random.normal(jax.random.key(i), shape) for i in range(2))
  return config, random_params(config), x, extra


@ALL
@pytest.mark.parametrize("scan", [True, False])
def test_extra_keys_are_seen_by_all(config, scan):
  config, params, x, extra = with_extra_keys(config, scan)
  run = lambda x, mask, extra: stack.apply(
      config, params["layers"], x, mask, extra_kv=extra
  )[0]
  found = run(x, None, extra)
  masked = run(x, masks.causal_mask(7), extra)
  np.testing.assert_allclose(found, masked, atol=1e-5)
  changed = x.at[:, 4:].set(0.0)
  np.testing.assert_array_equal(run(changed, None, extra)[:, :4], found[:, :4])
  other = jax.tree.map(lambda e: e[:, ::-1], extra)  # Another row's keys.
  moved = np.abs(run(x, None, other) - found)[0].max(-1)
  assert (moved > 1e-4).all()
  gradient = jax.grad(lambda e: (run(x, None, e) ** 2).sum())(extra)
  for part in gradient:
    assert (np.abs(part).max(-1) > 0).all()


@ALL
@pytest.mark.parametrize("scan", [True, False])
def test_extra_keys_in_a_cache(config, scan):
  """Written at prefill into the first slots, they are there at every step."""
  config, params, x, extra = with_extra_keys(config, scan)
  whole, _ = stack.apply(
      config, params["layers"], x, None, extra_kv=extra
  )
  shape = (config.num_layers, 3, config.kv_heads, 9, config.head_size)
  cache = (jnp.zeros(shape), jnp.zeros(shape))
  mask = jnp.pad(
      masks.causal_mask(7), [(0, 0)] * 3 + [(2, 0)], constant_values=True
  )
  y, cache = stack.apply(
      config, params["layers"], x[:, :4], mask[:, :, :4], cache=cache,
      index=jnp.int32(0), positions=jnp.arange(4)[None], extra_kv=extra,
  )
  np.testing.assert_allclose(y, whole[:, :4], atol=1e-5)
  for i in range(4, 7):
    y, cache = stack.apply(
        config, params["layers"], x[:, i:i + 1], mask[:, :, i:i + 1],
        cache=cache, index=jnp.int32(2 + i), positions=jnp.array([[i]]),
    )
    np.testing.assert_allclose(y[:, 0], whole[:, i], atol=1e-5)


def test_extra_keys_that_a_row_does_not_have_do_not_count():
  params, (b, t) = transformer.init(CTRL, jax.random.key(0)), (2, 4)
  ids = jnp.arange(b * t).reshape(b, t)
  shape = (CTRL.num_layers, b, CTRL.kv_heads, 3, CTRL.head_size)
  kv = tuple(jax.random.normal(jax.random.key(i), shape) for i in range(2))
  of = lambda kv, mask: transformer.hidden_states_with_taps(
      CTRL, params, ids, (), extra_kv=kv, extra_mask=mask
  )[0]
  two = of(kv, jnp.array([[True, True, False]] * b))
  np.testing.assert_allclose(
      two, of(tuple(x[:, :, :, :2] for x in kv), None), atol=1e-5
  )
  none = of(kv, jnp.zeros((b, 3), bool))
  np.testing.assert_allclose(
      none, transformer.hidden_states(CTRL, params, ids), atol=1e-5
  )
