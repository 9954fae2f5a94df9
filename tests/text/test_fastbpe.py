"""fastBPE: what the original makes of text, to the letter."""

import gzip
import json
import pickle
import random

import fastbpe_fakes
import pytest
import shared_data

from ctrl_jax import errors, text
from ctrl_jax.interop import tfrecords
from ctrl_jax.text import fastbpe


@pytest.fixture(scope="module", name="tok")
def small():
  return fastbpe.FastBPE(fastbpe_fakes.MERGES, fastbpe_fakes.VOCAB, ["Books"])


@pytest.fixture(scope="module")
def release():
  return text.load_tokenizer(shared_data.path("tokenizers/ctrl"))


@pytest.mark.parametrize(
    "string, pieces",
    [
        ("low lower", ["low", "low@@", "er"]),
        ("lox", ["lo@@", "x"]),
        # `xyz</w>` is merged but not in the vocabulary, nor is `xy@@`.
        ("xyz xyl", ["x@@", "y@@", "z", "x@@", "y@@", "l"]),
        ("low  er ", ["low", "", "er", ""]),
        ("low\n\ner", ["low", "\n", "", "\n", "er"]),
        ("", []),
        ("\n", ["", "\n", ""]),
        ("\xa0", ["\xa0"]),
    ],
)
def test_pieces(tok, string, pieces):
  assert tok.pieces(string) == pieces
  ids = tok.encode(string)
  assert len(ids) == len(pieces)
  if tok.unknown_id not in ids:
    assert tok.decode(ids) == string


@pytest.mark.parametrize(
    "newlines, string, pieces",
    [
        ("training", "lower\nlow \n\n er", ["low@@", "e@@", "r@@", "\n", "low",
                                            "\n", "\n", "er"]),
        ("huggingface", "lower\n\nlow \n er", ["low@@", "e@@", "r@@", "\n",
                                               "low", "er"]),
        ("training", "\n", ["\n"]),
        ("huggingface", " \n low", ["low"]),
        ("training", "low\r", ["low@@"]),
    ],
)
def test_other_conventions_for_line_ends(tok, newlines, string, pieces):
  assert tok.pieces(string, newlines) == pieces
  other = tok.with_newlines(newlines)
  assert other.encode(string) == tok.encode(string, newlines=newlines)
  assert len(other.encode(string)) == len(pieces)


def test_decoding_joins_lines_of_the_training_convention(tok):
  ids = tok.encode("low\nlow", newlines="training")
  assert tok.decode(ids) == "low\nlow"


def test_ids_and_unknown_characters(tok):
  n = len(fastbpe_fakes.VOCAB)
  assert tok.encode("\n") == [n, n + 2, n]
  assert tok.unknown_id == n + 1 and tok.vocab_size == n + 3
  assert tok.encode("éé") == [n + 1, n + 1]
  assert tok.encode("low\0 \ud800") == [
      fastbpe_fakes.VOCAB.index("low@@"), n + 1, n + 1
  ]
  with pytest.raises(errors.UserError, match="outside the vocabulary of 23"):
    tok.decode([23])


def test_codes(tok):
  """`Books` is a word; what is no word becomes a symbol behind all others."""
  assert tok.code_ids("Books") == [fastbpe_fakes.VOCAB.index("Books")]
  assert not tok.reserved_ids
  larger = tok.with_codes(["Books", "Books r/low"])
  assert larger.vocab_size == tok.vocab_size + 1
  assert larger.code_ids("Books r/low") == [
      fastbpe_fakes.VOCAB.index("Books"), tok.vocab_size
  ]
  assert larger.reserved_ids == {tok.vocab_size}
  assert tok.vocab_size not in larger.encode("Books r/low")
  assert larger.decode([tok.vocab_size, 0]) == "low"


@pytest.mark.parametrize("changed", [False, True])
def test_saved_and_pickled(tok, tmp_path, changed):
  if changed:
    tok = tok.with_codes(["r/x"]).with_newlines("training")
  tok.save(tmp_path)
  string = "low lower xyz\n. é"
  for other in (text.load_tokenizer(tmp_path), pickle.loads(pickle.dumps(tok))):
    assert other.encode(string) == tok.encode(string)
    assert other.hash == tok.hash and other.codes == tok.codes
    assert other.newlines == tok.newlines


def test_random_strings_never_raise_and_come_back(tok):
  draw = random.Random(0)
  alphabet = "lowerxyz  \n\xa0.\t\ud800é@<>/w\0\u3000"
  for _ in range(2000):
    string = "".join(draw.choices(alphabet, k=draw.randrange(12)))
    for newlines in fastbpe.NEWLINES:
      ids = tok.encode(string, newlines=newlines)
      assert len(ids) == len(tok.pieces(string, newlines=newlines))
      tok.decode(ids)
    ids = tok.encode(string)
    if tok.unknown_id not in ids:
      assert tok.decode(ids) == string


def test_real_lines_are_cut_as_by_the_original(release):
  folder = shared_data.path("expected/fastbpe")
  lines, expected = (
      gzip.decompress((folder / name).read_bytes()).decode().split("\n")
      for name in ("lines.txt.gz", "lines.bpe.gz")
  )
  assert len(lines) == 1501
  for line, bpe in zip(lines, expected, strict=True):
    assert " ".join(release.pieces(line)) == bpe
    ids = release.encode(line)
    if release.unknown_id not in ids:
      assert release.decode(ids) == line


def test_ids_are_the_releases(release):
  expected = json.loads(
      shared_data.path("expected/ctrl_tokens.json").read_text()
  )
  assert dict(release.code_words) == expected["control_code_ids"]
  assert len(release.codes) == 55
  assert release.encode(expected["prompt"]) == expected["prompt_ids"]
  assert release.vocab_size == expected["vocab_size"]
  assert release.unknown_id == expected["unk_id"]
  assert release.encode("\n")[1] == expected["newline_id"] == 246533
  assert release.encode("") == [] and release.encode(" ") == [246531] * 2
  assert release.encode("\xa0") == [18008]


def test_the_training_convention_is_the_original_tools(release):
  """The text behind make_tf_records.py's file gives its tokens again."""
  file = shared_data.path("expected/tfrecords/sample.txt.tfrecords")
  ids = []
  for row in tfrecords.rows(file):  # The code; each shares one with the next.
    assert not ids or ids[-1] == row[1]
    ids = [*ids[:-1], *row[1:].tolist()]
  assert len(ids) == 19 * 255 + 1
  # A word's last piece had a space behind it, even where a line ends.
  tokens = release.tokens
  written = "".join(
      "\n" if tokens[i] == "\n" else f"{tokens[i]} ".replace("@@ ", "")
      for i in ids
  )
  assert written.count("\n") == 414 and ". \n" in written
  for newlines in fastbpe.NEWLINES:
    found = release.encode(written, newlines=newlines)
    assert (found == ids) == (newlines == "training")
