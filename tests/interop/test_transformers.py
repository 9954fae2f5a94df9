"""Beside transformers in PyTorch, where it is installed: the same numbers."""

import interop_fakes
import numpy as np
import pytest

import ctrl_jax
from ctrl_jax.decoding import GenerationOptions, Generator, presets
from ctrl_jax.decoding.generator import Row
from ctrl_jax.interop import hugging_face
from ctrl_jax.models.config import TransformerConfig

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SHAPES = {
    "small": dict(vocab_size=29, d_model=16, d_ff=24, num_layers=3,
                  num_heads=2, max_length=24),
    "wide": dict(vocab_size=101, d_model=48, d_ff=32, num_layers=1,
                 num_heads=12, max_length=40),
    "deep": dict(vocab_size=17, d_model=8, d_ff=64, num_layers=6, num_heads=1,
                 max_length=32),
}
GPT2 = dict(positions="learned", activation="gelu_tanh", head_bias=False,
            scale_embedding=False, layer_norm_epsilon=1e-5)
LLAMA = dict(positions="rotary", activation="swiglu", norm="rms", biases=False,
             head_bias=False, scale_embedding=False, dropout=0.0)
KINDS = {
    "ctrl": {},
    "gpt2": GPT2,
    "llama": LLAMA | dict(layer_norm_epsilon=1e-5),
    "untied": LLAMA | dict(num_kv_heads=1, tied_head=False, rotary_theta=100.0),
}


@pytest.fixture(params=[(s, k) for s in SHAPES for k in KINDS], ids="-".join)
def pair(request, tmp_path):
  """(ours, theirs) with the same random weights, through the files."""
  shape, kind = request.param
  config = TransformerConfig(**SHAPES[shape], **KINDS[kind])
  params = interop_fakes.random_params(config)
  params = {k: _scaled(v, 0.3) for k, v in params.items()}
  hugging_face.write(tmp_path, config, params)
  theirs = transformers.AutoModelForCausalLM.from_pretrained(
      tmp_path, dtype=torch.float32
  ).eval()
  return ctrl_jax.load(tmp_path), theirs


def _scaled(tree, by):
  if isinstance(tree, dict):
    return {k: _scaled(v, by) for k, v in tree.items()}
  return tree * np.float32(by)


def test_logits(pair):
  ours, theirs = pair
  rng = np.random.default_rng(0)
  ids = rng.integers(0, ours.config.vocab_size, (3, 20))
  with torch.no_grad():
    expected = theirs(torch.tensor(ids)).logits.numpy()
  assert np.abs(expected).max() > 0.3
  np.testing.assert_allclose(ours.logits(ids), expected, atol=1e-4)


@pytest.mark.parametrize("penalty", [1.0, 1.2, 2.0])
def test_greedy_tokens(pair, penalty):
  """Under rules="huggingface", cache on both sides."""
  ours, theirs = pair
  prompt = [3, 1, 4, 1, 5]
  with torch.no_grad():
    out = theirs.generate(
        torch.tensor([prompt]), do_sample=False, max_new_tokens=16,
        min_new_tokens=16, repetition_penalty=penalty, pad_token_id=0,
    )
  row = Row(prompt, 1, (0, 0))
  fields = presets.options("huggingface", None)
  Generator(ours.config, ours.params).run(
      [row],
      GenerationOptions(max_new_tokens=16, penalty=penalty, **fields),
  )
  assert row.ids == out[0, len(prompt):].tolist()
