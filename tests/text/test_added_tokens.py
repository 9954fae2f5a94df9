"""GPT-2's files with tokens that were added to them."""

import json

import pytest
from tokenizers import pre_tokenizers

from ctrl_jax import errors, text

TOKENS = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "<|endoftext|>"]
SIZE = len(TOKENS)
# In the form of transformers 4, after `add_tokens(["MINE"])` and
# `add_special_tokens(dict(pad_token="PAD", eos_token="ENDE"))`.
ADDED = {"PAD": SIZE + 1, "MINE": SIZE, "ENDE": SIZE + 2}
SPECIAL = {
    "bos_token": "<|endoftext|>",
    "eos_token": {"content": "ENDE", "lstrip": False, "normalized": True},
    "pad_token": "PAD",
}


def write(folder, added=None, special=None, tokens=TOKENS, **config):
  vocab = {token: i for i, token in enumerate(tokens)}
  (folder / "vocab.json").write_text(json.dumps(vocab))
  (folder / "merges.txt").write_text("#version: 0.2\nt h\n")
  for name, content in (("added_tokens.json", added),
                        ("special_tokens_map.json", special),
                        ("tokenizer_config.json", config or None)):
    if content is not None:
      (folder / name).write_text(json.dumps(content))
  return folder


def numbered():
  """What `tokenizer_config.json` says of the same tokens."""
  return {
      str(i): dict(content=token, special=token != "MINE")
      for token, i in ADDED.items()
  }


@pytest.mark.parametrize("where", ["map", "config"])
def test_tokens_behind_the_vocabulary(tmp_path, where):
  if where == "map":
    write(tmp_path, ADDED, SPECIAL)
  else:
    write(tmp_path, ADDED, eos_token="ENDE", added_tokens_decoder=numbered())
  tok = text.load_tokenizer(tmp_path)
  assert tok.vocab_size == SIZE + 3
  assert tok.tokens[SIZE:] == ["MINE", "PAD", "ENDE"]
  assert tok.end_id == SIZE + 2
  # A word is a token of text; a special token, spelt out, is not.
  assert tok.pieces("thMINE PAD") == ["th", "MINE", "Ġ", "P", "A", "D"]
  assert tok.encode("MINE") == [SIZE]
  ids = [*tok.encode("the MINE"), SIZE + 1, SIZE - 1, SIZE + 2]
  assert tok.decode(ids) == "the MINE"
  tok.save(tmp_path / "saved")
  again = text.load_tokenizer(tmp_path / "saved")
  assert again.hash == tok.hash and again.encode("MINE") == [SIZE]
  larger = tok.with_codes(["Books"])
  assert larger.code_ids("Books") == [SIZE + 3]


def test_without_a_word_about_the_end(tmp_path):
  tok = text.load_tokenizer(write(tmp_path, {"MINE": SIZE}))
  assert tok.end_id == SIZE - 1
  assert SIZE - 1 not in tok.encode("<|endoftext|>")


@pytest.mark.parametrize("file", ["added", "special"])
def test_tokens_in_the_vocabulary_that_no_merge_makes(tmp_path, file):
  tokens = [*TOKENS, "ENDE"]
  with pytest.raises(errors.UserError, match="'ENDE' the first"):
    text.load_tokenizer(write(tmp_path, tokens=tokens))
  said = dict(added={"ENDE": SIZE}, special={"additional_special_tokens": [
      "ENDE"
  ]})
  tok = text.load_tokenizer(
      write(tmp_path, tokens=tokens, **{file: said[file]})
  )
  assert tok.vocab_size == SIZE + 1


@pytest.mark.parametrize(
    "added, says",
    [
        ({"MINE": SIZE + 1}, f"the id {SIZE + 1} of 'MINE' does not fit"),
        ({"MINE": SIZE, "YOURS": SIZE}, "does not fit the vocabulary's"),
        ({"th": 3}, "the id 3 of 'th' does not fit"),
        ({"MINE": "7"}, "ids must be whole numbers"),
        ({"": SIZE}, "cannot be a token"),
        ([], "no JSON object"),
    ],
)
def test_ids_that_do_not_fit(tmp_path, added, says):
  with pytest.raises(errors.UserError, match=says):
    text.load_tokenizer(write(tmp_path, added))


@pytest.mark.parametrize("content", ["{", '{"pad_token": "\\ud800"}', "[]"])
def test_damaged_files(tmp_path, content):
  (write(tmp_path) / "special_tokens_map.json").write_text(content)
  with pytest.raises(errors.UserError, match="special_tokens_map.json .*JSON"):
    text.load_tokenizer(tmp_path)


def test_a_rule_with_added_tokens_beside_the_two_files(tmp_path):
  """Fast tokenizers of transformers 4 wrote all of these files."""
  text.load_tokenizer(write(tmp_path, ADDED, SPECIAL)).save(tmp_path / "rule")
  rule = (tmp_path / "rule" / "tokenizer.json").read_text()
  (tmp_path / "added_tokens.json").unlink()
  assert text.load_tokenizer(tmp_path).vocab_size == SIZE
  (tmp_path / "tokenizer.json").write_text(rule)
  assert text.load_tokenizer(tmp_path).encode("MINE") == [SIZE]
