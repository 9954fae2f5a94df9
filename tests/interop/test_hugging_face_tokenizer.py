"""Tokenizer files for transformers: the same ids."""

import gzip
import itertools
import json
import random

import interop_fakes as fakes
import pytest
import shared_data
import tokenizers
from tokenizers import pre_tokenizers

from ctrl_jax import text
from ctrl_jax.interop import hugging_face_tokenizer
from ctrl_jax.text import (
    byte_bpe,
    fastbpe,
    learn_bpe,
    score_bpe,
    sentencepiece,
)

TEXTS = ["Books are read by cats.\n\n\tReddit: r/cats, r/legaladvice.\n",
         "The cat sat on the mat; the dog  ran   away (quickly).\n" * 3]
CODES = ["Books", "Reddit r/cats"]


def strings():
  draw = random.Random(0)
  words = ["cat", " ", "  ", "\n", "\t", "Books", "r/cats", "é日", "~", "</s>",
           "the dog", "(ran)"]
  return TEXTS + ["".join(draw.choices(words, k=8)) for _ in range(300)]


@pytest.mark.parametrize("model_type, size", [("bpe", 160), ("unigram", 105)])
def test_sentencepiece_ids(model_type, size):
  tok = sentencepiece.train(
      TEXTS, CODES, vocab_size=size, model_type=model_type
  )
  files = hugging_face_tokenizer.files(tok)
  rule = tokenizers.Tokenizer.from_str(files["tokenizer.json"].decode())
  for string in strings():
    ids = tok.encode(string)
    assert rule.encode(string).ids == ids
    if tok.unknown_id not in ids:
      assert rule.decode(ids) == string


def by_score(front=True):
  """Pieces of which no two overlapping pairs make the same."""
  keep = [i for i, p in enumerate(fakes.PIECES) if p != "aaa"]
  pick = lambda x: [x[i] for i in keep]
  return score_bpe.ScoreBPE(
      pick(fakes.PIECES), pick(fakes.SCORES), pick(fakes.KINDS),
      begin_id=1 if front else None, end_id=2, space_in_front=front,
  )


@pytest.mark.parametrize("front", [True, False])
def test_ids_of_pieces_with_scores(front):
  tok = by_score(front)
  files = hugging_face_tokenizer.files(tok)
  rule = tokenizers.Tokenizer.from_str(files["tokenizer.json"].decode())
  draw = random.Random(0)
  for _ in range(300):
    string = "".join(draw.choices(["a", "b", "c", " ", "\n", "é日"], k=9))
    ids = [*tok.begin_ids, *tok.encode(string)]
    assert rule.encode(string).ids == ids
    assert rule.decode(ids) == string


def test_our_own_files_still_load(tmp_path):
  learned = learn_bpe.train(TEXTS, CODES, 40)
  vocab = {t: i for i, t in enumerate(pre_tokenizers.ByteLevel.alphabet())}
  for tok in (
      sentencepiece.train(TEXTS, CODES, vocab_size=150),
      learned.with_newlines("training"),
      byte_bpe.ByteBPE(vocab, [], CODES),
      by_score().with_codes(CODES),
  ):
    folder = tmp_path / type(tok).__name__
    folder.mkdir()
    for name, content in hugging_face_tokenizer.files(tok).items():
      (folder / name).write_bytes(content)
    again = text.load_tokenizer(folder)
    assert again.encode(TEXTS[0]) == tok.encode(TEXTS[0])
    assert again.codes == tok.codes and again.hash == tok.hash


def test_fastbpe_files_are_ctrls(tmp_path):
  tok = learn_bpe.train(TEXTS, [], 40)
  files = hugging_face_tokenizer.files(tok)
  for name in ("vocab.json", "merges.txt"):
    (tmp_path / name).write_bytes(files[name])
  assert text.load_tokenizer(tmp_path).encode("the cat") == tok.encode(
      "the cat"
  )
  config = json.loads(files["tokenizer_config.json"])
  assert config["tokenizer_class"] == "CTRLTokenizer"


def test_transformers_gives_the_same_ids(tmp_path):
  transformers = pytest.importorskip("transformers")
  learned = learn_bpe.train(TEXTS, [], 40)
  sp = sentencepiece.train(TEXTS, CODES, vocab_size=150)
  for tok, name in ((learned, "ctrl"), (sp, "sp"), (by_score(), "score")):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "ctrl"}')
    for file, content in hugging_face_tokenizer.files(tok).items():
      (folder / file).write_bytes(content)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    # Words that were learnt: what fastBPE takes apart is `<unk>` there.
    for string in ("The cat sat on the mat;", "the dog\nran away", "cats."):
      if isinstance(tok, fastbpe.FastBPE):
        ours = tok.encode(string, newlines="huggingface")
      else:
        ours = [*tok.begin_ids, *tok.encode(string)]
      assert theirs(string)["input_ids"] == ours


def test_transformers_gives_the_releases_ids_on_ascii(tmp_path):
  """Hundreds of real lines, with what ends and separates lines varied."""
  transformers = pytest.importorskip("transformers")
  release = text.load_tokenizer(shared_data.path("tokenizers/ctrl"))
  lines = gzip.decompress(
      shared_data.path("expected/fastbpe/lines.txt.gz").read_bytes()
  ).decode().split("\n")
  lines = [line for line in lines if line and line.isascii()][:400]
  assert len(lines) == 400
  (tmp_path / "config.json").write_text('{"model_type": "ctrl"}')
  for file, content in hugging_face_tokenizer.files(release).items():
    (tmp_path / file).write_bytes(content)
  theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
  assert len(theirs) == release.vocab_size
  ends = itertools.cycle(["\n", "\n\n", " \n", "  ", "\t", "\n \n"])
  strings = [*lines, *map("".join, zip(lines, ends, lines[1:]))]
  different = [
      string for string in strings
      if theirs(string)["input_ids"] != release.encode(
          string, newlines="huggingface"
      )
  ]
  assert different == []
