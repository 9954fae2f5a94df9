"""Tiny models of each kind, with parameters none of which is neutral."""

import dataclasses

import jax
import pytest

from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig

CTRL = TransformerConfig(
    vocab_size=97, d_model=16, d_ff=32, num_layers=2, num_heads=4,
    max_length=12, scan_layers=False, dtype="float32",
)
GPT2 = dataclasses.replace(
    CTRL, positions="learned", activation="gelu_tanh", layer_norm_epsilon=1e-5,
    scale_embedding=False, head_bias=False,
)
LLAMA = dataclasses.replace(
    CTRL, positions="rotary", activation="swiglu", norm="rms", num_kv_heads=2,
    biases=False, scale_embedding=False, head_bias=False,
)
UNTIED = dataclasses.replace(
    LLAMA, tied_head=False, rotary_order="pairs", num_kv_heads=1
)
ALL = pytest.mark.parametrize(
    "config", [CTRL, GPT2, LLAMA, UNTIED],
    ids=["ctrl", "gpt2", "llama", "untied"],
)


def random_params(config, seed=0):
  """Parameters none of which is at its neutral start (scale 1, bias 0)."""
  params = transformer.init(config, jax.random.key(seed))
  leaves, tree = jax.tree.flatten(params)
  keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
  leaves = [
      x + 0.1 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys)
  ]
  return jax.tree.unflatten(tree, leaves)
