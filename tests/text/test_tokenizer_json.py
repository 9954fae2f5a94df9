"""Hugging Face's `tokenizer.json`: found where it is needed, read, saved."""

import json
import pickle

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from ctrl_jax import errors, text
from ctrl_jax.text.byte_bpe import ByteBPE
from ctrl_jax.text.tokenizer_json import TokenizerJson

VOCAB = {"<|end|>": 0} | {
    c: i + 1 for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))
} | {"11": 257, "ab": 258}
MERGES = [("1", "1"), ("a", "b")]


def rule(digits=True, begin=False, behind=False):
  made = tokenizers.Tokenizer(models.BPE(VOCAB, MERGES))
  made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  if digits:
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), made.pre_tokenizer]
    )
  made.decoder = decoders.ByteLevel()
  made.add_special_tokens(["<|end|>"])
  if begin or behind:
    made.post_processor = processors.TemplateProcessing(
        single=(["<|end|>"] if begin else []) + ["$A"]
        + (["<|end|>"] if behind else []),
        special_tokens=[("<|end|>", 0)],
    )
  return made.to_str()


def write(folder, **kwargs):
  """As transformers saves a byte-level tokenizer."""
  (folder / "tokenizer.json").write_text(rule(**kwargs))
  (folder / "vocab.json").write_text(json.dumps(VOCAB))
  (folder / "merges.txt").write_text("1 1\na b\n")
  (folder / "tokenizer_config.json").write_text(
      json.dumps({"eos_token": {"content": "<|end|>"}})
  )


def test_numbers_cut_into_digits(tmp_path):
  write(tmp_path)
  tok = text.load_tokenizer(tmp_path)
  assert isinstance(tok, TokenizerJson)
  assert tok.pieces("ab11") == ["ab", "1", "1"]
  assert tok.end_id == 0 and tok.begin_ids == () and tok.unknown_id is None
  assert tok.vocab_size == 259 and tok.tokens[258] == "ab"


def test_gpt2s_files_stay_gpt2s(tmp_path):
  write(tmp_path, digits=False)
  tok = text.load_tokenizer(tmp_path)
  assert tok.pieces("ab11") == ["ab", "11"] and tok.end_id == 0
  (tmp_path / "tokenizer_config.json").unlink()
  tok = text.load_tokenizer(tmp_path)
  assert isinstance(tok, ByteBPE) and tok.pieces("ab11") == ["ab", "11"]


def test_special_tokens_that_text_yields_are_text():
  made = tokenizers.Tokenizer.from_str(rule())
  made.add_special_tokens(["!", "ab", "<pad>"])
  tok = TokenizerJson(made.to_str(), "<|end|>")
  string = "Stop! ab11 <pad><|end|>"
  assert tok.decode(tok.encode(string)) == string
  assert tok.decode([0, *tok.encode("ab!"), 259, 0]) == "ab!"


@pytest.mark.parametrize("kwargs", [dict(begin=True, digits=False), {}])
def test_needed_alone_or_with_a_token_in_front(tmp_path, kwargs):
  write(tmp_path, **kwargs)
  if not kwargs:
    (tmp_path / "merges.txt").unlink()
  assert text.has_tokenizer(tmp_path)
  tok = text.load_tokenizer(tmp_path)
  assert tok.begin_ids == ((0,) if kwargs else ())
  assert tok.pieces("ab") == ["ab"]


def test_special_tokens_are_no_text():
  tok = TokenizerJson(rule(), "<|end|>")
  ids = tok.encode("a<|end|>\ud800\u00e9")
  assert 0 not in ids and tok.decode(ids) == "a<|end|>\ufffd\u00e9"
  assert tok.decode([0, *ids, 0]) == "a<|end|>\ufffd\u00e9"
  with pytest.raises(errors.UserError, match="outside the vocabulary"):
    tok.decode([259])


def test_codes_behind_and_back(tmp_path):
  tok = TokenizerJson(rule(begin=True), "<|end|>").with_codes(["Big r/a"])
  assert tok.code_ids("Big r/a") == [0, 259, 260]
  assert tok.vocab_size == 261 == len(tok.tokens) and tok.decode([259]) == ""
  tok.save(tmp_path)
  for back in (text.load_tokenizer(tmp_path), pickle.loads(pickle.dumps(tok))):
    assert back.hash == tok.hash and back.code_ids("Big") == [0, 259]


# No token for what is unknown; a merge whose symbols are no tokens.
KINDS = (
    '{"version": "1.0", "added_tokens": [], "model": {"type": "%s",'
    ' "vocab": {"b": 0}, "unk_token": "[UNK]", "max_input_chars_per_word": 9,'
    ' "continuing_subword_prefix": "##"}}'
)
PANIC = (
    '{"version": "1.0", "added_tokens": [], "model": {"type": "BPE",'
    ' "vocab": {"a": 0, "ab": 1}, "merges": ["a b"],'
    ' "continuing_subword_prefix": "###"}}'
)


@pytest.mark.parametrize(
    "content, message",
    [("{", "is damaged"), ("[]", "is damaged"), ("{}", "is damaged"),
     (rule(behind=True), "behind every text")],
)
def test_damage(tmp_path, content, message):
  write(tmp_path)
  (tmp_path / "tokenizer.json").write_text(content)
  with pytest.raises(errors.UserError, match=message):
    text.load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    "content", [KINDS % "WordLevel", KINDS % "WordPiece", PANIC]
)
def test_rules_that_the_library_cannot_run(content):
  with pytest.raises(errors.UserError, match="is damaged, or a kind that"):
    TokenizerJson(content, None)


@pytest.mark.parametrize("end, message", [("</s>", "no token '</s>'"),
                                          (3, "eos_token=3 is no token")])
def test_an_end_that_is_not_there(tmp_path, end, message):
  write(tmp_path)
  (tmp_path / "tokenizer_config.json").write_text(
      json.dumps({"eos_token": end})
  )
  with pytest.raises(errors.UserError, match=message):
    text.load_tokenizer(tmp_path)


def test_missing_where_it_is_named(tmp_path):
  TokenizerJson(rule(), None).save(tmp_path)
  (tmp_path / "tokenizer.json").unlink()
  with pytest.raises(errors.UserError, match="is missing"):
    text.load_tokenizer(tmp_path)
