"""GGUF models: the parameters of their originals, and variants refused."""

import dataclasses

import interop_fakes as fakes
import numpy as np
import pytest

import ctrl_jax
from ctrl_jax import errors, saved_model
from ctrl_jax.interop import gguf_model

gguf = pytest.importorskip("gguf")

# What the format has no place for.
LLAMA = dataclasses.replace(
    fakes.LLAMA, embedding_init=0.05,
    layer_norm_epsilon=float(np.float32(1e-5)),
)
UNTIED = dataclasses.replace(
    LLAMA, tied_head=False, num_kv_heads=0, rotary_theta=500000.0
)


def write(folder, config=LLAMA, **kwargs):
  file = folder / "model.gguf"
  params = fakes.random_params(config)
  fakes.write_gguf(file, config, params, **kwargs)
  return file, params


@pytest.mark.parametrize("config", [LLAMA, UNTIED], ids=["llama", "untied"])
def test_parameters_are_those_of_the_original(tmp_path, config):
  file, params = write(tmp_path, config)
  for path in (file, tmp_path):
    found = saved_model.read(path)
    assert found.config == config == saved_model.read_config(path)
    fakes.assert_same(found.params, params)
  assert not ctrl_jax.load(file).has_tokenizer


def test_half_and_eighth_precision(tmp_path):
  config = dataclasses.replace(LLAMA, d_model=32, d_ff=64)
  table = fakes.random_params(config)["embedding"]["table"]
  up = fakes.random_params(config)["layers"]["up"]["kernel"][0].T
  types = gguf.GGMLQuantizationType
  file, params = write(tmp_path, config, tensors={
      "token_embd.weight": (table, types.Q8_0),
      "blk.0.ffn_up.weight": (np.ascontiguousarray(up), types.F16),
      "blk.1.ffn_up.weight": (
          np.ascontiguousarray(params_up(config, 1)), types.Q4_1
      ),
  })
  _, found = gguf_model.read(file)
  expected = gguf.quants.dequantize(
      gguf.quants.quantize(table, types.Q8_0), types.Q8_0
  )
  np.testing.assert_array_equal(found["embedding"]["table"], expected)
  np.testing.assert_allclose(expected, table, atol=0.02)
  kernels = found["layers"]["up"]["kernel"]
  np.testing.assert_array_equal(kernels[0], up.astype(np.float16).T)
  np.testing.assert_allclose(kernels[1].T, params_up(config, 1), atol=0.3)
  np.testing.assert_array_equal(
      kernels[2], params["layers"]["up"]["kernel"][2]
  )


def params_up(config, layer):
  return fakes.random_params(config)["layers"]["up"]["kernel"][layer].T


@pytest.mark.parametrize(
    "kwargs, message",
    [
        (dict(drop=["blk.1.ffn_gate.weight"]), "Missing: blk.1.ffn_gate"),
        (dict(drop=["output_norm.weight"]), "Missing: output_norm.weight"),
        (dict(tensors={"rope_freqs.weight": np.ones(2, np.float32)}),
         "Not expected: rope_freqs.weight"),
        (dict(tensors={"blk.0.attn_q.bias": np.ones(8, np.float32)}),
         "Not expected: blk.0.attn_q.bias"),
        (dict(tensors={"blk.0.attn_q.weight": np.ones((8, 4), np.float32)}),
         r"another shape: blk.0.attn_q.weight \[8, 4\]"),
        (dict(tensors={"blk.0.ffn_up.weight": np.ones((8, 12), np.float32)}),
         "another shape: blk.0.ffn_up"),
        (dict(tensors={"output_norm.weight": np.full(8, np.nan, np.float32)}),
         "Not finite floats: output_norm.weight"),
        (dict(tensors={"token_embd.weight": np.ones(13, np.float32)}),
         "no matrix token_embd.weight"),
        (dict(drop=["token_embd.weight"]), "no matrix token_embd.weight"),
        (dict(fields={"general.architecture": "qwen2"}),
         "architecture 'qwen2'; this program reads 'llama'"),
        (dict(fields={"llama.block_count": 4}), "has 3 layers, and says"),
        (dict(fields={"llama.block_count": 2}), "has 3 layers, and says"),
        (dict(drop=["llama.context_length"]), "llama.context_length must be"),
        (dict(fields={"llama.attention.head_count": [2, 2, 1]}),
         "llama.attention.head_count must be whole"),
        (dict(fields={"llama.attention.head_count_kv": [1, 2, 1]}),
         "num_kv_heads"),
        (dict(fields={"llama.rope.scaling.type": "linear"}),
         "llama.rope.scaling.type=linear is a variant"),
        (dict(fields={"llama.rope.scaling.factor": 4.0}), "scaling.factor=4.0"),
        (dict(fields={"llama.rope.dimension_count": 2}), "dimension_count=2"),
        (dict(fields={"llama.attention.key_length": 16}), "key_length=16"),
        (dict(fields={"llama.expert_count": 8}), "expert_count=8"),
        (dict(fields={"llama.attention.sliding_window": 4}), "sliding_window"),
        (dict(fields={"llama.rope.freq_base": 0.0}), "must be above 1"),
    ],
)
def test_other_models_are_refused(tmp_path, kwargs, message):
  file, _ = write(tmp_path, **kwargs)
  with pytest.raises(errors.UserError, match=message) as e:
    saved_model.read(file)
  assert "\n" not in str(e.value)


def test_defaults_and_values_that_change_nothing(tmp_path):
  file, _ = write(
      tmp_path, UNTIED,
      drop=["llama.attention.head_count_kv", "llama.rope.freq_base",
            "llama.attention.layer_norm_rms_epsilon",
            "llama.rope.dimension_count"],
      fields={"llama.expert_count": 0, "llama.rope.scaling.type": "none",
              "llama.vocab_size": 13, "general.name": "x"},
  )
  assert gguf_model.read_config(file) == dataclasses.replace(
      UNTIED, rotary_theta=10000.0, layer_norm_epsilon=1e-5
  )
