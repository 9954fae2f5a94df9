"""Hugging Face's layout: the numbers of transformers, and round trips."""

import dataclasses
import itertools
import json
import pathlib

import evaluation_fakes as fakes
import numpy as np
import pytest
import safetensors.numpy
from interop_fakes import (
    CTRL,
    GPT2,
    LLAMA,
    UNTIED,
    assert_same,
    random_params,
)

from ctrl_jax import errors
from ctrl_jax.decoding import GenerationOptions, Generator, presets
from ctrl_jax.decoding.generator import Row
from ctrl_jax.interop import hugging_face

GOLDEN = pathlib.Path(__file__).parent / "golden"


def write(folder, config=CTRL, **kwargs):
  folder.mkdir(exist_ok=True)
  params = random_params(config)
  hugging_face.write(folder, config, params, **kwargs)
  return params


def tensors(folder):
  return safetensors.numpy.load_file(folder / "model.safetensors")


def save(folder, found):
  safetensors.numpy.save_file(found, folder / "model.safetensors")


def read_golden(name):
  """(tensors, what transformers made of them by name)."""
  with np.load(GOLDEN / f"{name}.npz") as golden:
    golden = dict(golden)
  made = {k: golden.pop(k) for k in list(golden) if k.startswith("__")}
  return golden, {k.strip("_"): v for k, v in made.items()}


@pytest.mark.parametrize(
    "name, bare",
    [
        *itertools.product(
            ["ctrl", "gpt2", "llama", "llama_untied", "llama_all_heads"],
            [False, True],
        ),
        *((f"{kind}_{shape}", False) for kind in ("ctrl", "gpt2")
          for shape in ("wide", "deep")),
    ],
)
def test_logits_are_those_of_transformers(tmp_path, name, bare):
  golden, made = read_golden(name)
  if bare:  # As saved from the model without its head, and old buffers.
    golden = {
        k.removeprefix("transformer.").removeprefix("model."): v
        for k, v in golden.items()
    }
    if name == "llama":
      golden["layers.1.self_attn.rotary_emb.inv_freq"] = np.ones(2, np.float16)
      golden["lm_head.weight"] = golden["embed_tokens.weight"]
    if name == "gpt2":
      golden["h.0.attn.bias"] = np.ones((1, 1, 12, 12), np.float16)
      golden["h.1.attn.masked_bias"] = np.array(-1e4, np.float16)
      golden["lm_head.weight"] = golden["wte.weight"]
  (tmp_path / "config.json").write_text(str(made["config"]))
  save(tmp_path, golden)
  config, params, extra = hugging_face.read(tmp_path)
  ours = fakes.logits(config, params, made["ids"])
  assert extra == {}
  assert np.abs(made["logits"]).max() > 1
  np.testing.assert_allclose(ours, made["logits"], atol=1e-4)


@pytest.mark.parametrize(
    "name",
    ["ctrl_wide", "gpt2_wide", *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("ctrl", "ctrl_deep", "gpt2", "gpt2_deep", "llama")
    )],
)
def test_greedy_tokens_are_those_of_transformers(tmp_path, name):
  """Penalty included, with a cache, under rules="huggingface"."""
  golden, made = read_golden(name)
  (tmp_path / "config.json").write_text(str(made["config"]))
  save(tmp_path, golden)
  config, params, _ = hugging_face.read(tmp_path)
  generator = Generator(config, params)
  fields = presets.options("huggingface", None)
  assert len(np.unique(made["greedy"])) > 4
  for penalty, expected in zip(made["penalties"], made["greedy"], strict=True):
    row = Row(made["prompt"].tolist(), 1, (0, 0))
    generator.run([row], GenerationOptions(
        max_new_tokens=len(expected), penalty=float(penalty), **fields
    ))
    assert row.ids == expected.tolist()


@pytest.mark.parametrize(
    "config",
    [CTRL, GPT2, LLAMA, UNTIED, dataclasses.replace(GPT2, tied_head=False)],
)
def test_round_trip_is_exact(tmp_path, config):
  params = write(tmp_path, config, end_id=3, extra={"prior": {"A": 1.0}})
  back, back_params, extra = hugging_face.read(tmp_path)
  assert back == config
  assert extra == {"prior": {"A": 1.0}}
  assert_same(params, back_params)


def test_padding_rows_are_not_exported(tmp_path):
  config = dataclasses.replace(CTRL, vocab_multiple=8)
  params = write(tmp_path, config)
  found = tensors(tmp_path)
  assert found["transformer.w.weight"].shape == (13, 8)
  assert found["lm_head.bias"].shape == (13,)
  _, back, _ = hugging_face.read(tmp_path)
  np.testing.assert_array_equal(
      back["embedding"]["table"], params["embedding"]["table"][:13]
  )


def test_names_and_orientation(tmp_path):
  params = write(tmp_path)
  found = tensors(tmp_path)
  assert len(found) == 1 + 3 * 16 + 3
  np.testing.assert_array_equal(
      found["transformer.h.2.multi_head_attention.Wk.weight"],
      params["layers"]["key"]["kernel"][2].T,
  )
  np.testing.assert_array_equal(
      found["transformer.h.1.ffn.2.bias"], params["layers"]["down"]["bias"][1]
  )
  config = json.loads((tmp_path / "config.json").read_text())
  assert config["model_type"] == "ctrl"
  assert (config["n_positions"], config["dff"]) == (6, 12)


def test_gpt2_joins_query_key_value(tmp_path):
  params = write(tmp_path, GPT2)["layers"]
  expected = np.concatenate(
      [params[x]["kernel"][1] for x in ("query", "key", "value")], axis=-1
  )
  found = tensors(tmp_path)["transformer.h.1.attn.c_attn.weight"]
  np.testing.assert_array_equal(found, expected)


def test_padding_rows_of_a_head_are_not_exported(tmp_path):
  config = dataclasses.replace(UNTIED, vocab_multiple=8)
  params = write(tmp_path, config)
  _, back, _ = hugging_face.read(tmp_path)
  np.testing.assert_array_equal(
      back["head"]["table"], params["head"]["table"][:13]
  )


def test_names_of_a_model_in_data_parallel(tmp_path):
  params = write(tmp_path, GPT2)
  save(tmp_path, {f"module.{k}": v for k, v in tensors(tmp_path).items()})
  assert_same(params, hugging_face.read(tmp_path)[1])


def test_the_penalty_is_ctrls(tmp_path):
  for config, penalty in ((CTRL, 1.2), (GPT2, None)):
    write(tmp_path, config)
    found = json.loads((tmp_path / "generation_config.json").read_text())
    assert found.get("repetition_penalty") == penalty


def test_what_a_folder_says_of_generation(tmp_path):
  write(tmp_path, LLAMA, end_id=2, begin_id=1)
  found = json.loads((tmp_path / "generation_config.json").read_text())
  assert found == dict(
      do_sample=False, bos_token_id=1, eos_token_id=2, pad_token_id=2
  )
  assert json.loads((tmp_path / "config.json").read_text())["bos_token_id"] == 1


def test_a_llama_without_its_head(tmp_path):
  write(tmp_path, UNTIED)
  found = tensors(tmp_path)
  del found["lm_head.weight"]
  save(tmp_path, found)
  with pytest.raises(errors.UserError, match=r"Missing: lm_head\.weight"):
    hugging_face.read(tmp_path)


def test_a_llama_with_biases(tmp_path):
  write(tmp_path, LLAMA)
  name = "model.layers.0.self_attn.q_proj.bias"
  save(tmp_path, tensors(tmp_path) | {name: np.zeros(8, np.float32)})
  with pytest.raises(errors.UserError, match=f"Not expected: {name}"):
    hugging_face.read(tmp_path)


def _drop(found):
  del found["transformer.h.1.ffn.0.bias"]


def _add(found):
  found["transformer.h.7.ffn.0.bias"] = np.zeros(12, np.float32)


def _misshape(found):
  found["transformer.w.weight"] = np.zeros((12, 8), np.float32)


def _transpose(found):
  name = "transformer.h.0.ffn.0.weight"
  found[name] = np.ascontiguousarray(found[name].T)


def _nan(found):
  found["lm_head.bias"][3] = np.nan


def _untie(found):
  found["lm_head.weight"] = np.zeros((13, 8), np.float32)


def _quantise(found):
  name = "transformer.w.weight"
  found[name] = found[name].astype(np.int8)


@pytest.mark.parametrize(
    "damage, message",
    [
        (_drop, "Missing: transformer.h.1.ffn.0.bias"),
        (_add, "Not expected: transformer.h.7.ffn.0.bias"),
        (_misshape, r"another shape: transformer.w.weight \[12, 8\]"),
        (_transpose, "another shape: transformer.h.0.ffn.0.weight"),
        (_nan, "Not finite floats: lm_head.bias"),
        (_quantise, "Not finite floats: transformer.w.weight"),
        (_untie, "differs from the embedding"),
    ],
)
def test_damaged_tensors(tmp_path, damage, message):
  write(tmp_path)
  found = {k: v.copy() for k, v in tensors(tmp_path).items()}
  damage(found)
  save(tmp_path, found)
  with pytest.raises(errors.UserError, match=message):
    hugging_face.read(tmp_path)


def test_two_tensors_for_one_weight(tmp_path):
  write(tmp_path)
  found = tensors(tmp_path)
  save(tmp_path, found | {"w.weight": found["transformer.w.weight"] + 1})
  with pytest.raises(errors.UserError, match="two tensors for"):
    hugging_face.read(tmp_path)


def test_truncated_file(tmp_path):
  write(tmp_path)
  file = tmp_path / "model.safetensors"
  file.write_bytes(file.read_bytes()[:-100])
  with pytest.raises(errors.UserError, match="damaged"):
    hugging_face.read(tmp_path)


def test_missing_weights(tmp_path):
  write(tmp_path)
  (tmp_path / "model.safetensors").unlink()
  with pytest.raises(errors.UserError, match=r"no model\.safetensors"):
    hugging_face.read(tmp_path)


@pytest.mark.parametrize(
    "config, change, message",
    [
        (CTRL, dict(model_type="bert"), r"config\.json: model_type is 'bert'"),
        (CTRL, dict(n_layer=10**9), "has 3 layers, its config.json says"),
        (LLAMA, dict(num_hidden_layers=9), "says num_hidden_layers=9"),
        (CTRL, dict(vocab_size=2 * 10**9), "shape: transformer.w.weight"),
    ],
)
def test_other_models_are_refused(tmp_path, config, change, message):
  write(tmp_path, config)
  file = tmp_path / "config.json"
  file.write_text(json.dumps(json.loads(file.read_text()) | change))
  with pytest.raises(errors.UserError, match=message):
    hugging_face.read(tmp_path)


def test_config_that_is_not_json(tmp_path):
  (tmp_path / "config.json").write_text("{")
  with pytest.raises(errors.UserError, match="not JSON"):
    hugging_face.read(tmp_path)
