"""Layouts: every leaf has its name there, and other models are refused."""

import collections
import dataclasses
import json

import pytest
from interop_fakes import CTRL, GPT2, LLAMA, UNTIED, random_params

from ctrl_jax import errors
from ctrl_jax.interop import assemble, layouts

GPT2_UNTIED = dataclasses.replace(GPT2, tied_head=False)


@pytest.mark.parametrize(
    "config, tensors",
    [
        (CTRL, layouts.tensors(CTRL)),
        (GPT2, layouts.tensors(GPT2)),
        (CTRL, layouts.tensorflow_ctrl(CTRL.num_layers)),
        (LLAMA, layouts.tensors(LLAMA)),
        (UNTIED, layouts.tensors(UNTIED)),
        (GPT2_UNTIED, layouts.tensors(GPT2_UNTIED)),
    ],
    ids=["ctrl", "gpt2", "tensorflow_ctrl", "llama", "untied", "gpt2_untied"],
)
def test_every_leaf_of_every_layer_is_there_once(config, tensors):
  expected = [
      (path, layer)
      for path in assemble.flat(random_params(config))
      for layer in (
          range(config.num_layers) if path.startswith("layers/") else [None]
      )
  ]
  found = [(path, t.layer) for t in tensors for path in t.leaves]
  assert collections.Counter(found) == collections.Counter(expected)
  assert len({t.name for t in tensors}) == len(tensors)


@pytest.mark.parametrize(
    "config, change, message",
    [
        (CTRL, dict(residual="normalised"), "residual"),
        (CTRL, dict(positions="learned"), "positions"),
        (CTRL, dict(layer_norm_epsilon=1e-5), "epsilon"),
        (CTRL, dict(num_kv_heads=1), "num_kv_heads=1"),
        (GPT2, dict(biases=False), "biases"),
        (CTRL, dict(tied_head=False), "tied_head"),
        (LLAMA, dict(norm="layer"), "Nearest is llama, but for model.norm"),
        (LLAMA, dict(rotary_order="pairs"), "rotary_order"),
    ],
)
def test_none_of_the_kinds(config, change, message):
  with pytest.raises(errors.UserError, match=message):
    layouts.kind(dataclasses.replace(config, **change))


def test_numbering_of_many_layers():
  """No suffix for the first; the last norm is number 2L: 72 at 36 layers."""
  names = {t.name: t for t in layouts.tensorflow_ctrl(36)}
  assert len(names) == 36 * 16 + 4
  for name in (
      "encoder/encoder_layer/multi_head_attention/dense/kernel",
      "encoder/encoder_layer_31/multi_head_attention_31/dense_189/bias",
      "encoder/encoder_layer_35/layer_normalization_71/beta",
      "encoder/layer_normalization_72/gamma",
  ):
    assert name in names
  assert "encoder/encoder_layer/layer_normalization/gamma" in names


@pytest.mark.parametrize("config", [CTRL, GPT2], ids=["ctrl", "gpt2"])
def test_config_there_and_back(config):
  config = dataclasses.replace(config, dropout=0.25, embedding_init=0.5)
  content = json.loads(json.dumps(layouts.to_json(config, 7)))
  assert content["eos_token_id"] == 7
  assert layouts.from_json(content, "config.json") == config


def test_what_gpt2s_config_may_leave_out():
  content = layouts.to_json(GPT2, None)
  for key in ("n_inner", "layer_norm_epsilon", "activation_function"):
    del content[key]
  content["n_ctx"] = content.pop("n_positions")  # Of the first files.
  expected = dataclasses.replace(GPT2, d_ff=4 * GPT2.d_model)
  assert layouts.from_json(content, "config.json") == expected


@pytest.mark.parametrize(
    "config, change, message",
    [
        (CTRL, dict(model_type="bert"), "a.json: model_type is 'bert'"),
        (CTRL, dict(n_layer=None), "a.json: n_layer must be"),
        (CTRL, dict(model_type=[]), "model_type is"),
        (CTRL, dict(tie_word_embeddings="16"), "tie_word_embeddings"),
        (CTRL, dict(n_positions=2**30), "max_length=1073741824 must be at"),
        (CTRL, dict(initializer_range=2**31), "must be 0 or more, and at"),
        (CTRL, dict(resid_pdrop="high"), "dropout='high' must be a number"),
        (CTRL, dict(tie_word_embeddings=False), "a.json: tie_word_embeddings"),
        (CTRL, dict(layer_norm_epsilon=1e-5), "a.json: layer_norm_epsilon"),
        (GPT2, dict(tie_word_embeddings="no"), "tie_word_embeddings='no' must"),
        (GPT2, dict(activation_function="gelu"), "a.json: activation_function"),
        (GPT2, dict(scale_attn_by_inverse_layer_idx=True), "inverse_layer"),
    ],
)
def test_other_models_are_refused(config, change, message):
  content = layouts.to_json(config, None) | change
  with pytest.raises(errors.UserError, match=message):
    layouts.from_json(content, "a.json")
