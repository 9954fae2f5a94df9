"""The tokenizers in GGUF files: both kinds, their defaults, what is refused."""

import dataclasses
import json

import interop_fakes as fakes
import pytest
from tokenizers import pre_tokenizers

import ctrl_jax
from ctrl_jax import errors, text

pytest.importorskip("gguf")

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = ["<|endoftext|>", "<|im_end|>", *ALPHABET, "ab", "11", "\u0120a"]
BYTE_BPE = {
    "model": "gpt2", "pre": "smollm", "tokens": TOKENS,
    "token_type": [3, 3] + [1] * (len(TOKENS) - 2),
    "merges": ["a b", "1 1", "\u0120 a"], "bos_token_id": 0, "eos_token_id": 1,
}
SCORE_BPE = {
    "model": "llama", "tokens": fakes.PIECES, "scores": fakes.SCORES,
    "token_type": fakes.KINDS, "bos_token_id": 1, "eos_token_id": 2,
}


def write(folder, said, drop=(), **changes):
  said = {k: v for k, v in (said | changes).items() if k not in drop}
  config = dataclasses.replace(fakes.LLAMA, vocab_size=len(said["tokens"]))
  file = folder / "model.gguf"
  fakes.write_gguf(
      file, config, fakes.random_params(config),
      fields={f"tokenizer.ggml.{k}": v for k, v in said.items()},
  )
  return file


def test_gpt2s_kind_with_smollms_digits(tmp_path):
  model = ctrl_jax.load(write(tmp_path, BYTE_BPE))
  tok = model.tokenizer
  assert tok.pieces("ab11 a") == ["ab", "1", "1", "\u0120a"]
  assert tok.begin_ids == () and tok.end_id == 1 and tok.unknown_id is None
  ids = tok.encode("<|im_end|>\u00e9")
  assert 1 not in ids and tok.decode([*ids, 1]) == "<|im_end|>\u00e9"
  assert tok.tokens == TOKENS
  assert len(model.generate("ab", max_new_tokens=3)[0][0].token_ids) <= 3


def test_gpt2s_own_and_a_token_in_front(tmp_path):
  file = write(tmp_path, BYTE_BPE, pre="gpt-2", add_bos_token=True)
  tok = text.load_tokenizer(file)
  assert text.has_tokenizer(file)
  assert tok.pieces("ab11") == ["ab", "11"] and tok.begin_ids == (0,)


def test_llamas_kind(tmp_path):
  tok = text.load_tokenizer(write(tmp_path, SCORE_BPE))
  assert tok.pieces("ab") == ["\u2581a", "b"]
  assert tok.begin_ids == (1,) and tok.end_id == 2
  file = write(
      tmp_path, SCORE_BPE, add_space_prefix=False, add_bos_token=False
  )
  tok = text.load_tokenizer(file)
  assert tok.pieces("ab") == ["ab"] and tok.begin_ids == ()


def test_export_and_back(tmp_path):
  from ctrl_jax import convert

  for i, said in enumerate((BYTE_BPE, SCORE_BPE)):
    file = write(tmp_path, said)
    model = ctrl_jax.load(file)
    back = ctrl_jax.load(convert.convert(file, tmp_path / f"to{i}"))
    fakes.assert_same(back.params, model.params)
    for string in ("ab11 a\u00e9", "", " a", "aaaa bc\n"):
      assert back.tokenizer.encode(string) == model.tokenizer.encode(string)
    assert back.tokenizer.begin_ids == model.tokenizer.begin_ids
    assert back.tokenizer.end_id == model.tokenizer.end_id
    content = json.loads((tmp_path / f"to{i}/config.json").read_text())
    assert content["eos_token_id"] == model.tokenizer.end_id


def test_a_table_larger_than_the_tokenizer(tmp_path):
  from ctrl_jax import convert

  config = dataclasses.replace(fakes.LLAMA, vocab_size=len(TOKENS) + 5)
  file = tmp_path / "model.gguf"
  fakes.write_gguf(
      file, config, fakes.random_params(config),
      fields={f"tokenizer.ggml.{k}": v for k, v in BYTE_BPE.items()},
  )
  for path in (file, convert.convert(file, tmp_path / "to")):
    model = ctrl_jax.load(path)
    assert model.tokenizer.vocab_size == model.config.vocab_size - 5
    (found,), = model.generate("ab", max_new_tokens=4, stop_at_end=False)
    assert max(found.token_ids) < len(TOKENS)


@pytest.mark.parametrize(
    "said, drop, changes, message",
    [
        (BYTE_BPE, (), dict(model="bert"), "model='bert'; this program has"),
        (BYTE_BPE, (), dict(pre="qwen2"), "pre='qwen2' is a way to cut"),
        (BYTE_BPE, ("pre",), {}, "pre=None is a way to cut"),
        (BYTE_BPE, (), dict(model=["gpt2"]), "this program has"),
        (BYTE_BPE, (), dict(pre=["gpt-2"]), "is a way to cut"),
        (BYTE_BPE, ("merges",), {}, "merges is no list"),
        (BYTE_BPE, (), dict(merges="a b"), "merges is no list"),
        (BYTE_BPE, (), dict(merges=[1, 2]), "merges is no list"),
        (BYTE_BPE, (), dict(merges=["a b c"]), "no merge of two"),
        (BYTE_BPE, (), dict(merges=["b b"]), "'bb' of the merge"),
        (BYTE_BPE, (), dict(eos_token_id=9999), "eos_token_id=9999 is none"),
        (BYTE_BPE, ("bos_token_id",), dict(add_bos_token=True),
         "bos_token_id is missing"),
        (BYTE_BPE, ("token_type",), {}, "no two lists of one length"),
        (BYTE_BPE, (), dict(tokens=["a", "a"], token_type=[1, 1]), "damaged"),
        (SCORE_BPE, ("scores",), {}, "0 scores"),
        (SCORE_BPE, (), dict(token_type=[9] * len(fakes.PIECES)), "kind 9"),
    ],
)
def test_what_is_refused(tmp_path, said, drop, changes, message):
  file = write(tmp_path, said, drop, **changes)
  model = ctrl_jax.load(file)  # Its numbers can be used.
  assert model.has_tokenizer
  with pytest.raises(errors.UserError, match=message) as e:
    _ = model.tokenizer
  assert "\n" not in str(e.value) and str(file) in str(e.value)
