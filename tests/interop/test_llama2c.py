"""llama2.c's files: the real one's text and numbers, round trips, damage."""

import dataclasses
import json
import struct

import interop_fakes as fakes
import numpy as np
import pytest
import shared_data

import ctrl_jax
from ctrl_jax import errors, saved_model
from ctrl_jax.interop import llama2c

LLAMA = dataclasses.replace(
    fakes.LLAMA, rotary_theta=10000.0, embedding_init=0.05
)
UNTIED = dataclasses.replace(LLAMA, tied_head=False, num_kv_heads=0)
BOTH = pytest.mark.parametrize("config", [LLAMA, UNTIED], ids=["tied", "own"])


@pytest.fixture
def stories():
  expected = shared_data.path("expected/stories260k_greedy.json")
  model = ctrl_jax.load(shared_data.path("weights/stories260K.bin"))
  return model, json.loads(expected.read_text())


def test_greedy_story_and_logits(stories):
  model, expected = stories
  (found,), = model.generate("", max_new_tokens=200, penalty=1.0)
  ids = expected["greedy_ids_numpy"]
  assert [1, *found.token_ids][:len(ids)] == ids
  assert found.text == expected["expected_text"]
  logits = model.logits([expected["logits_for_ids"]])[0, -1, :16]
  np.testing.assert_allclose(
      logits, expected["last_logits_first16"], atol=1e-4
  )


def test_prompts_of_different_lengths(stories):
  model, _ = stories
  prompts = ["Once upon a time", "Lily", "The big dog was"]
  together = model.generate(prompts, max_new_tokens=20, penalty=1.0)
  alone = [model.generate(p, max_new_tokens=20, penalty=1.0)[0]
           for p in prompts]
  assert [r[0].token_ids for r in together] == [r[0].token_ids for r in alone]
  assert all(r[0].text.strip() for r in together)
  # The text begins with <s>, which predicts the first token.
  score = model.score(["Once upon a time"])[0]
  assert score.num_tokens == len(model.tokenizer.encode("Once upon a time"))
  assert score.perplexity < model.score(["time a upon Once"])[0].perplexity


@BOTH
def test_there_and_back(tmp_path, config):
  file = tmp_path / "model.bin"
  params = fakes.random_params(config)
  fakes.write_llama2c(file, config, params)
  found = saved_model.read(file)
  assert found.config == config == saved_model.read_config(file)
  fakes.assert_same(found.params, params)


@BOTH
def test_another_length_is_refused(tmp_path, config):
  file = tmp_path / "model.bin"
  fakes.write_llama2c(file, config, fakes.random_params(config))
  data = file.read_bytes()
  for n in (0, 10, 27, 28, 1000, len(data) - 4, len(data) - 1):
    file.write_bytes(data[:n])
    with pytest.raises(errors.UserError, match="no model in llama2.c's"):
      llama2c.read(file)
  file.write_bytes(data + b"\0\0\0\0")
  with pytest.raises(errors.UserError, match="no model in llama2.c's"):
    saved_model.read(file)


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("value", [0, -7, 7, 2**31 - 1])
def test_a_damaged_header(tmp_path, place, value):
  file = tmp_path / "model.bin"
  fakes.write_llama2c(file, LLAMA, fakes.random_params(LLAMA))
  data = bytearray(file.read_bytes())
  data[4 * place:4 * place + 4] = struct.pack("<i", value)
  file.write_bytes(data)
  with pytest.raises(errors.UserError, match="no model in llama2.c's"):
    llama2c.read(file)


def test_numbers_that_are_none_and_other_angles(tmp_path):
  file = tmp_path / "model.bin"
  params = fakes.random_params(LLAMA)
  params["layers"]["down"]["kernel"][1, 2, 3] = np.inf
  fakes.write_llama2c(file, LLAMA, params)
  with pytest.raises(errors.UserError, match=r"Not finite floats: w2\.1"):
    llama2c.read(file)
  fakes.write_llama2c(file, LLAMA, fakes.random_params(LLAMA))
  data = file.read_bytes()
  file.write_bytes(data[:-4] + struct.pack("<f", 0.3))
  with pytest.raises(errors.UserError, match="other angles"):
    llama2c.read(file)


def test_a_tokenizer_beside_the_model(tmp_path):
  config = dataclasses.replace(LLAMA, vocab_size=len(fakes.PIECES))
  file = tmp_path / "model.bin"
  fakes.write_llama2c(file, config, fakes.random_params(config))
  assert not ctrl_jax.load(file).has_tokenizer
  fakes.write_llama2c_tokenizer(tmp_path / "tokenizer.bin")
  model = ctrl_jax.load(file)
  assert model.has_tokenizer
  assert model.tokenizer.pieces("ab") == ["\u2581a", "b"]
  assert model.tokenizer.tokens == fakes.PIECES
  assert model.tokenizer.decode(model.tokenizer.encode("\u00e9 b\n")) == (
      "\u00e9 b\n"
  )
  # One of this very vocabulary comes first.
  named = tmp_path / f"tok{len(fakes.PIECES)}.bin"
  fakes.write_llama2c_tokenizer(named)
  assert llama2c.find_tokenizer(file, len(fakes.PIECES)) == named


def test_a_damaged_tokenizer(tmp_path):
  file = tmp_path / "tokenizer.bin"
  fakes.write_llama2c_tokenizer(file)
  data = file.read_bytes()
  broken = [data[:-1], data[:3], data[:2000], b"", data + b"\1",
            struct.pack("<i", 2) + data[4:],
            data[:8] + struct.pack("<i", -3) + data[12:],
            data[:-1] + b"\xff"]
  for content in broken:
    file.write_bytes(content)
    with pytest.raises(errors.UserError, match="no tokenizer of llama2.c"):
      llama2c.load_tokenizer(file)
