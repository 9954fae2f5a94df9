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


@pytest.mark.parametrize("where", ["map", "config", "config alone"])
def test_tokens_behind_the_vocabulary(tmp_path, where):
  if where == "map":
    write(tmp_path, ADDED, SPECIAL)
  else:
    write(
        tmp_path, ADDED if where == "config" else None,
        eos_token="ENDE", added_tokens_decoder=numbered(),
    )
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


@pytest.mark.parametrize(
    "added, numbered, says",
    [
        (None, {SIZE + 1: "MINE"},
         f"tokenizer_config.json: the id {SIZE + 1} of 'MINE' does not fit"),
        (ADDED, {SIZE: "YOURS"},
         f"added_tokens.json: the id {SIZE} of '(MINE|YOURS)' does not fit"),
        (ADDED, {SIZE: "PAD"}, f"the id {SIZE + 1} of 'PAD' does not fit that"),
        (None, {SIZE: "\ud800"}, "does not give a token to every id"),
        (None, {SIZE: 7}, "does not give a token to every id"),
        (None, {"x": "MINE"}, "does not give a token to every id"),
    ],
)
def test_ids_in_the_configuration_that_do_not_fit(
    tmp_path, added, numbered, says
):
  decoder = {i: dict(content=token) for i, token in numbered.items()}
  with pytest.raises(errors.UserError, match=says):
    text.load_tokenizer(write(tmp_path, added, added_tokens_decoder=decoder))
  with pytest.raises(errors.UserError, match="added_tokens_decoder does not"):
    text.load_tokenizer(write(tmp_path, added, added_tokens_decoder=[7]))


def test_the_end_in_the_vocabulary(tmp_path):
  special = {"eos_token": "</s>"}
  tok = text.load_tokenizer(
      write(tmp_path, special=special, tokens=[*TOKENS, "</s>"])
  )
  assert tok.vocab_size == SIZE + 1 and tok.end_id == SIZE
  assert not {SIZE - 1, SIZE} & {*tok.encode("th</s><|endoftext|>")}
  assert tok.decode([*tok.encode("th</s>"), SIZE, SIZE - 1]) == "th</s>"
  assert tok.with_codes(["Books"]).code_ids("Books") == [SIZE + 1]
  tok.save(tmp_path / "saved")
  assert text.load_tokenizer(tmp_path / "saved").end_id == SIZE


@pytest.mark.parametrize("added", [None, ADDED])
@pytest.mark.parametrize(
    "token, says",
    [
        ("NONE", "'NONE' is not in the vocabulary"),
        ({"content": 3}, "3 is not in the vocabulary"),
        ("th", "'th' is a piece of ordinary text"),
        ("!", "'!' is a piece of ordinary text"),
    ],
)
def test_an_end_that_cannot_be_one(tmp_path, added, token, says):
  said = {"eos_token": token}
  for file, config in (("special_tokens_map", {}), ("tokenizer_config", said)):
    with pytest.raises(errors.UserError, match=f"{file}.json: .*={says}"):
      text.load_tokenizer(write(tmp_path, added, said, **config))


def test_special_tokens_that_text_yields_are_text(tmp_path):
  # U+9000 begins with the byte E9, which is spelt "\u00e9".
  special = SPECIAL | {"pad_token": "!", "unk_token": "th", "x_token": "\u00e9"}
  tok = text.load_tokenizer(write(tmp_path, ADDED, special))
  for string in ("Stop! the MINE!", "\u9000 \u00e9 ENDE<|endoftext|>"):
    assert tok.decode(tok.encode(string)) == string
    assert not {SIZE - 1, SIZE + 2} & {*tok.encode(string)}


@pytest.mark.parametrize("content", ["{", '{"pad_token": "\\ud800"}', "[]"])
def test_damaged_files(tmp_path, content):
  (write(tmp_path) / "special_tokens_map.json").write_text(content)
  with pytest.raises(errors.UserError, match="special_tokens_map.json .*JSON"):
    text.load_tokenizer(tmp_path)


def test_a_rule_with_added_tokens_beside_the_two_files(tmp_path):
  """Fast tokenizers of transformers 4 wrote all of these files."""
  text.load_tokenizer(write(tmp_path, ADDED, SPECIAL)).save(tmp_path / "rule")
  rule = (tmp_path / "rule" / "tokenizer.json").read_text()
  for name in ("added_tokens", "special_tokens_map"):
    (tmp_path / f"{name}.json").unlink()
  assert text.load_tokenizer(tmp_path).vocab_size == SIZE
  (tmp_path / "tokenizer.json").write_text(rule)
  assert text.load_tokenizer(tmp_path).encode("MINE") == [SIZE]
