import dataclasses
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from model_configs import ALL, CTRL, GPT2, LLAMA, UNTIED, random_params

from ctrl_jax.models import masks, stack, transformer
from ctrl_jax.models.config import TransformerConfig


def logits(config, params, ids):
  return transformer.Transformer(config).apply({"params": params}, ids)


def numpy_ctrl_logits(config, params, ids):
  """The release's model written down from its description, float64."""
  p = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
  d, heads = config.d_model, config.num_heads
  table = p["embedding"]["table"]
  position = np.arange(len(ids))[:, None]
  column = np.arange(d)[None]
  angle = position / 10000.0 ** (2 * (column // 2) / d)
  sines, cosines = np.sin(angle[:, 0::2]), np.cos(angle[:, 1::2])
  x = table[ids] * math.sqrt(d) + np.concatenate([sines, cosines], -1)

  def norm(x, p):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-6) * p["scale"] + p["bias"]

  def linear(x, p):
    return x @ p["kernel"] + p["bias"]

  for i in range(config.num_layers):
    layer = jax.tree.map(lambda x, i=i: x[i], p["layers"])
    n = norm(x, layer["norm1"])
    q, k, v = (
        linear(n, layer[name]).reshape(len(ids), heads, -1)
        for name in ("query", "key", "value")
    )
    mixed = np.zeros_like(v)
    for h in range(heads):
      for t in range(len(ids)):
        s = k[: t + 1, h] @ q[t, h] / math.sqrt(d // heads)
        weight = np.exp(s - s.max())
        mixed[t, h] = (weight / weight.sum()) @ v[: t + 1, h]
    x = x + linear(mixed.reshape(len(ids), d), layer["output"])
    n = norm(x, layer["norm2"])
    x = x + linear(np.maximum(linear(n, layer["up"]), 0), layer["down"])
  return norm(x, p["final_norm"]) @ table.T + p["head"]["bias"]


def test_logits_equal_a_float64_model_from_the_description():
  params = random_params(CTRL)
  ids = np.array([3, 96, 0, 0, 41, 7, 7, 12])
  actual = logits(CTRL, params, jnp.asarray(ids)[None])[0]
  np.testing.assert_allclose(
      actual, numpy_ctrl_logits(CTRL, params, ids), atol=2e-5
  )


@pytest.mark.parametrize(
    "num_layers, expected", [(48, 1_637_964_550), (36, 1_307_426_566)]
)
def test_full_size_has_the_releases_number_of_parameters(num_layers, expected):
  config = TransformerConfig(
      vocab_size=246_534, d_model=1280, d_ff=8192, num_layers=num_layers,
      num_heads=16, max_length=256, vocab_multiple=2048,
  )
  assert transformer.num_parameters(config) == expected


def test_gpt2_small_has_the_published_number_of_parameters():
  config = dataclasses.replace(
      GPT2, vocab_size=50257, d_model=768, d_ff=3072, num_layers=12,
      num_heads=12, max_length=1024,
  )
  assert transformer.num_parameters(config) == 124_439_808


def test_smollm2_has_the_published_number_of_parameters():
  config = dataclasses.replace(
      LLAMA, vocab_size=49152, d_model=576, d_ff=1536, num_layers=30,
      num_heads=9, num_kv_heads=3, max_length=8192,
  )
  assert transformer.num_parameters(config) == 134_515_008


def test_tree_of_a_llama():
  paths = {
      jax.tree_util.keystr(path, simple=True, separator="/"): x.shape
      for path, x in jax.tree_util.tree_leaves_with_path(
          transformer.init(UNTIED, jax.random.key(0))
      )
  }
  assert paths == {
      "embedding/table": (97, 16), "head/table": (97, 16),
      "final_norm/scale": (16,),
      "layers/norm1/scale": (2, 16), "layers/norm2/scale": (2, 16),
      "layers/query/kernel": (2, 16, 16), "layers/key/kernel": (2, 16, 4),
      "layers/value/kernel": (2, 16, 4), "layers/output/kernel": (2, 16, 16),
      "layers/gate/kernel": (2, 16, 32), "layers/up/kernel": (2, 16, 32),
      "layers/down/kernel": (2, 32, 16),
  }


@ALL
def test_no_gradient_flows_to_later_positions(config):
  params = random_params(config)
  x = jax.random.normal(jax.random.key(2), (1, 8, config.d_model))

  def output(x, t):
    mask = masks.causal_mask(8)
    return stack.apply(config, params["layers"], x, mask)[0][0, t].sum()

  for t in range(8):
    gradient = jax.grad(output)(x, t)[0]
    assert (gradient[t + 1 :] == 0).all()
    assert (jnp.abs(gradient[: t + 1]).sum(-1) > 0).all()


def test_dropout_hits_embeddings_and_residuals_not_evaluation():
  config = dataclasses.replace(CTRL, dropout=0.5)
  params = random_params(config)
  ids = jnp.arange(8)[None]
  hidden = lambda key: transformer.hidden_states(
      config, params, ids, dropout_key=key
  )
  assert (hidden(None) == hidden(None)).all()
  assert (hidden(jax.random.key(0)) != hidden(jax.random.key(1))).any()


def test_printed_residual_differs_and_adds_the_normalised_input():
  printed = dataclasses.replace(CTRL, residual="normalised", num_layers=1)
  params = random_params(printed)
  # With all products zero, a block is LayerNorm of LayerNorm.
  layers = jax.tree_util.tree_map_with_path(
      lambda path, x: x if "norm" in str(path) else 0 * x, params["layers"]
  )
  x = jax.random.normal(jax.random.key(0), (1, 3, 16))
  mask = masks.causal_mask(3)
  y, _ = stack.apply(printed, layers, x, mask)
  norm = lambda x, p: (
      (x - x.mean(-1, keepdims=True))
      / jnp.sqrt(x.var(-1, keepdims=True) + 1e-6)
      * p["scale"][0][None, None]
      + p["bias"][0][None, None]
  )
  expected = norm(norm(x, layers["norm1"]), layers["norm2"])
  np.testing.assert_allclose(y, expected, atol=1e-5)
  raw = dataclasses.replace(printed, residual="raw")
  np.testing.assert_allclose(
      stack.apply(raw, layers, x, mask)[0], x, atol=1e-6
  )


@ALL
def test_padding_rows_of_the_table_change_nothing(config):
  padded = dataclasses.replace(config, vocab_multiple=64)
  assert padded.padded_vocab_size == 128
  params = transformer.init(padded, jax.random.key(0))
  assert (params["embedding"]["table"][97:] == 0).all()
  plain = jax.tree.map(lambda x: x, params)
  plain["embedding"] = {"table": params["embedding"]["table"][:97]}
  if "head" in params:
    plain["head"] = {k: x[:97] for k, x in params["head"].items()}
  ids = jnp.arange(12)[None]
  out = logits(padded, params, ids)
  assert out.shape == (1, 12, 97)
  np.testing.assert_array_equal(out, logits(config, plain, ids))


@ALL
def test_every_parameter_names_its_logical_axes(config):
  boxed = jax.eval_shape(
      lambda: transformer.init_boxed(config, jax.random.key(0))
  )
  is_box = lambda x: isinstance(x, nn.LogicallyPartitioned)
  for box in jax.tree.leaves(boxed, is_leaf=is_box):
    assert is_box(box) and len(box.names) == box.value.ndim
  names = boxed["layers"]["up"]["kernel"].names
  assert names == ("layers", "mlp_embed", "mlp")


@ALL
def test_bfloat16_logits_are_float32_and_close(config):
  params = random_params(config)
  ids = jnp.arange(12)[None]
  low = logits(dataclasses.replace(config, dtype="bfloat16"), params, ids)
  assert low.dtype == jnp.float32
  np.testing.assert_allclose(low, logits(config, params, ids), atol=0.3)


def test_positions_are_concatenated_and_exact():
  table = transformer.sinusoidal_positions(50_000, 8)
  rate = 10000.0 ** (-2 * np.arange(4) / 8)
  np.testing.assert_allclose(
      table[49_999, :4], np.sin(49_999 * rate), atol=1e-7
  )
  np.testing.assert_allclose(table[3, 4:], np.cos(3 * rate), atol=1e-7)
