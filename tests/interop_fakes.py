"""Tiny models of the kinds that other programs keep, shared by the tests."""

import dataclasses

import jax
import numpy as np

from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig

CTRL = TransformerConfig(
    vocab_size=13, d_model=8, d_ff=12, num_layers=3, num_heads=2, max_length=6
)
GPT2 = dataclasses.replace(
    CTRL, positions="learned", activation="gelu_tanh", scale_embedding=False,
    head_bias=False, layer_norm_epsilon=1e-5,
)
LLAMA = dataclasses.replace(
    CTRL, positions="rotary", activation="swiglu", norm="rms", num_kv_heads=1,
    biases=False, scale_embedding=False, head_bias=False, dropout=0.0,
    layer_norm_epsilon=1e-5, rotary_theta=1000.0,
)
UNTIED = dataclasses.replace(LLAMA, tied_head=False, num_kv_heads=0)


def random_params(config, seed=0):
  """Parameters with no two leaves, or rows, alike."""
  leaves, tree = jax.tree.flatten(
      jax.eval_shape(lambda k: transformer.init(config, k), jax.random.key(0))
  )
  rng = np.random.default_rng(seed)
  return jax.tree.unflatten(
      tree, [rng.normal(size=x.shape).astype(np.float32) for x in leaves]
  )


def assert_same(a, b):
  flat_a = jax.tree_util.tree_leaves_with_path(a)
  flat_b = dict(jax.tree_util.tree_leaves_with_path(b))
  assert {path for path, _ in flat_a} == flat_b.keys()
  for path, x in flat_a:
    np.testing.assert_array_equal(x, flat_b[path])
