import dataclasses

import flax.linen as nn
import jax
import numpy as np
import pytest

from ctrl_jax.models import injections
from ctrl_jax.models.config import TransformerConfig

BASE = TransformerConfig(
    vocab_size=29, d_model=8, d_ff=16, num_layers=3, num_heads=4,
    num_kv_heads=2, max_length=10, dtype="float32", vocab_multiple=8,
)
Z = jax.random.normal(jax.random.key(5), (3, 6))


def make(*names, base=BASE, **options):
  keys = iter(jax.random.split(jax.random.key(0), 9))
  params = nn.unbox(injections.init_boxed(base, names, 6, keys, **options))
  keys = iter(jax.random.split(jax.random.key(2), 20))
  return jax.tree.map(
      lambda x: x + jax.random.normal(next(keys), x.shape), params
  )


def test_shapes_and_what_is_not_used():
  params = make(*injections.NAMES)
  found = injections.inject(BASE, params, Z)
  assert found.input.shape == (3, 8)
  assert found.row_logits.shape == (3, 32)
  assert [x.shape for x in found.extra_kv] == [(3, 3, 2, 2, 2)] * 2
  assert injections.num_extra_keys(injections.NAMES) == 2
  assert injections.inject(BASE, {}, Z) == injections.Injection()
  assert injections.num_extra_keys(("input", "softmax")) == 0


def test_keys_and_values_by_hand():
  """Of a layer and a row: the layer's share of z, then projected."""
  params = make("pseudo_self_attention")
  key, value = injections.inject(BASE, params, Z).extra_kv
  p = jax.tree.map(np.asarray, params["pseudo_self_attention"])
  share = np.asarray(Z)[2] @ p["projection"]["kernel"][1]
  for found, name in ((key, "key"), (value, "value")):
    by_hand = share @ p[name]["kernel"][1] + p[name]["bias"][1]
    np.testing.assert_allclose(
        found[1, 2, :, 0], by_hand.reshape(2, 2), rtol=2e-5, atol=1e-5
    )


def test_one_share_of_z_for_all_layers():
  params = make("pseudo_self_attention", shared_projection=True)
  p = params["pseudo_self_attention"]
  assert p["projection"]["kernel"].shape == (1, 6, 8)
  each = np.repeat(p["projection"]["kernel"], 3, 0)
  same = {"pseudo_self_attention": p | {"projection": {"kernel": each}}}
  found, expected = (
      injections.inject(BASE, x, Z).extra_kv for x in (params, same)
  )
  for x, y in zip(found, expected):
    np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_optimus_memory_is_key_and_value_at_once():
  params = make("memory")
  key, value = injections.inject(BASE, params, Z).extra_kv
  np.testing.assert_array_equal(key, value)
  by_hand = np.asarray(Z)[2] @ np.asarray(params["memory"]["kernel"])[1]
  np.testing.assert_allclose(
      key[1, 2, :, 0], by_hand.reshape(2, 2), rtol=2e-5, atol=1e-5
  )


def test_the_same_vectors_for_every_layer():
  params = make("pseudo_self_attention")["pseudo_self_attention"]
  x = jax.random.normal(jax.random.key(1), (1, 2, 5, 8))
  key, _ = injections.project(BASE, params, x)
  assert key.shape == (3, 2, 2, 5, 2)
  repeated, _ = injections.project(BASE, params, np.repeat(x, 3, 0))
  np.testing.assert_allclose(key, repeated, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", injections.NAMES)
def test_boxes_name_every_axis(name):
  keys = iter(jax.random.split(jax.random.key(0), 9))
  boxed = injections.init_boxed(
      dataclasses.replace(BASE, num_kv_heads=0), (name,), 6, keys
  )
  is_box = lambda x: isinstance(x, nn.LogicallyPartitioned)
  boxes = jax.tree.leaves(boxed, is_leaf=is_box)
  assert boxes and all(len(b.names) == b.value.ndim for b in boxes)
