"""GPT-2's tokenizer: its own ids, and every string comes back."""

import json
import pickle
import random

import pytest
import shared_data
from tokenizers import pre_tokenizers

from ctrl_jax import errors, text
from ctrl_jax.text import byte_bpe

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = [*ALPHABET, "lo", "low", "Ġlow", "<|endoftext|>"]
MERGES = ["l o", "lo w", "Ġ low"]


@pytest.fixture(scope="module", name="tok")
def small():
  vocab = {token: i for i, token in enumerate(TOKENS)}
  return byte_bpe.ByteBPE(vocab, MERGES, ["Books", "Reddit r/x"])


def test_small(tok):
  assert tok.pieces("low low") == ["low", "Ġlow"]
  assert tok.end_id == len(TOKENS) - 1 and tok.unknown_id is None
  assert tok.code_ids("Reddit r/x") == [len(TOKENS) + 1, len(TOKENS) + 2]
  assert tok.reserved_ids == {len(TOKENS) + i for i in range(3)}
  text_ids = tok.encode("Books <|endoftext|>")
  assert not {tok.end_id, *tok.reserved_ids} & set(text_ids)
  assert tok.decode([tok.end_id, *tok.code_ids("Books"), *text_ids]) == (
      "Books <|endoftext|>"
  )
  with pytest.raises(errors.UserError, match="outside the vocabulary"):
    tok.decode([tok.vocab_size])


def test_random_strings_come_back(tok):
  draw = random.Random(0)
  for _ in range(500):
    string = "".join(draw.choices("low  \n\t\xa0é\0😀's1", k=8))
    assert tok.decode(tok.encode(string)) == string
    assert len(tok.pieces(string)) == len(tok.encode(string))
  assert tok.decode(tok.encode("a\ud800")) == "a\ufffd"


def test_saved_and_pickled(tok, tmp_path):
  tok.save(tmp_path)
  for other in (text.load_tokenizer(tmp_path), pickle.loads(pickle.dumps(tok))):
    assert other.hash == tok.hash and other.codes == tok.codes
    assert other.encode("slow low") == tok.encode("slow low")
  assert tok.with_codes(["New"]).vocab_size == tok.vocab_size + 1


BYTES = {token: i for i, token in enumerate(ALPHABET)}


@pytest.mark.parametrize(
    "vocab, merges, says",
    [
        ([], "l o", "damaged"),
        ({"l": 0, "o": 1}, "l o", "lacks 254 of the 256 bytes"),
        (BYTES | {"lo": 999}, "l o", "damaged"),
        (BYTES | {"lo": True}, "l o", "damaged"),
        (BYTES | {"\ud800": 256}, "l o", "damaged"),
        (BYTES, "l o", "do not fit each other"),
        (BYTES, "l o w", "no merge of two tokens"),
    ],
)
def test_damaged_files(tmp_path, vocab, merges, says):
  (tmp_path / "encoder.json").write_text(json.dumps(vocab))
  (tmp_path / "vocab.bpe").write_text(f"#version: 0.2\n{merges}\n")
  with pytest.raises(errors.UserError, match=says):
    text.load_tokenizer(tmp_path)


def test_merges_cut_at_a_line_end(tok, tmp_path):
  tok.save(tmp_path)
  file = tmp_path / "merges.txt"
  whole = file.read_text()
  for end in range(len(MERGES)):
    lines = "".join(f"{line}\n" for line in MERGES[:end])
    file.write_text("#version: 0.2\n" + lines)
    with pytest.raises(errors.UserError, match="pieces of the vocabulary"):
      text.load_tokenizer(tmp_path)
  file.write_text(whole[:-2])
  with pytest.raises(errors.UserError, match=r"merges\.txt ends in the middle"):
    text.load_tokenizer(tmp_path)


def test_special_tokens_are_made_by_no_merge(tmp_path):
  tokens = [*TOKENS, "<s>", "[PAD]", "ENDE"]
  vocab = {token: i for i, token in enumerate(tokens)}
  (tmp_path / "vocab.json").write_text(json.dumps(vocab))
  (tmp_path / "merges.txt").write_text("".join(f"{x}\n" for x in MERGES))
  with pytest.raises(errors.UserError, match="1 pieces .* 'ENDE' the first"):
    text.load_tokenizer(tmp_path)
  (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "ENDE"}')
  assert text.load_tokenizer(tmp_path).pieces("low") == ["low"]


def test_ids_are_gpt2s():
  tok = text.load_tokenizer(shared_data.path("tokenizers/gpt2"))
  expected = json.loads(
      shared_data.path("expected/gpt2_tokens.json").read_text()
  )
  assert tok.vocab_size == 50257 and tok.end_id == 50256
  assert tok.encode(expected["prompt"]) == expected["prompt_ids"]
  assert tok.decode(expected["expected_ids"]) == expected["expected_text"]
