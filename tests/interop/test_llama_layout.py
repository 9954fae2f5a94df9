"""Llama's `config.json`: sizes there and back, variants refused."""

import dataclasses
import json

import pytest
from interop_fakes import LLAMA, UNTIED

from ctrl_jax import errors
from ctrl_jax.interop import layouts, llama_layout


@pytest.mark.parametrize("config", [LLAMA, UNTIED], ids=["llama", "untied"])
def test_config_there_and_back(config):
  content = json.loads(json.dumps(layouts.to_json(config, 2, begin_id=1)))
  assert (content["model_type"], content["bos_token_id"]) == ("llama", 1)
  assert layouts.from_json(content, "config.json") == config


def test_theta_as_transformers_5_keeps_it():
  content = llama_layout.to_json(LLAMA)
  del content["rope_theta"], content["rope_scaling"]
  content |= dict(
      vocab_size=13,
      rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
  )
  assert llama_layout.from_json(content, "a.json") == LLAMA


def test_what_a_config_may_leave_out():
  content = dict(
      vocab_size=13, hidden_size=8, intermediate_size=12, num_hidden_layers=3,
      num_attention_heads=2, max_position_embeddings=6,
  )
  assert llama_layout.from_json(content, "a.json") == dataclasses.replace(
      UNTIED, layer_norm_epsilon=1e-6, rotary_theta=10000.0, embedding_init=0.02
  )


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(rope_scaling={"type": "linear", "factor": 2.0}), "rope_scaling="),
        (dict(rope_scaling="yarn"), "rope_scaling="),
        (dict(rope_scaling={"factor": 2.0}), "rope_scaling="),
        (dict(rope_parameters={"rope_type": "llama3"}), "rope_parameters="),
        (dict(rope_parameters={"partial_rotary_factor": 0.5}), "rope_param"),
        (dict(partial_rotary_factor=0.5), "partial_rotary_factor=0.5"),
        (dict(hidden_act="gelu"), "hidden_act='gelu'"),
        (dict(attention_bias=True), "attention_bias=True"),
        (dict(mlp_bias=True), "mlp_bias=True"),
        (dict(head_dim=6), "head_dim=6"),
        (dict(pretraining_tp=2), "pretraining_tp=2"),
        (dict(quantization_config={}), "quantization_config={}"),
        (dict(hidden_size=None), "hidden_size must be whole numbers"),
        (dict(num_key_value_heads=3), "num_heads=2 is not a multiple"),
        (dict(num_key_value_heads="2"), "num_kv_heads='2' must be a whole"),
        (dict(rope_theta="big"), "rotary_theta='big' must be a number"),
        (dict(tie_word_embeddings="yes"), "tie_word_embeddings='yes' must be"),
    ],
)
def test_other_variants_are_refused(change, message):
  content = layouts.to_json(LLAMA, None) | change
  with pytest.raises(errors.UserError, match=message):
    layouts.from_json(content, "a.json")
