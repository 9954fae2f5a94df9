"""fastBPE: what the original makes of text, to the letter."""

import gzip
import json
import pickle
import random

import pytest
import shared_data

from ctrl_jax import errors, text
from ctrl_jax.interop import tfrecords
from ctrl_jax.text import fastbpe

# l o w</w> -> low; e r</w> -> er; x y -> xy, which is not in the vocabulary.
MERGES = [("l", "o"), ("lo", "w</w>"), ("e", "r</w>"), ("o", "w"), ("l", "ow"),
          ("x", "y"), ("xy", "z</w>"), ("lo", "w"), ("a", "\xa0")]
VOCAB = ["low", "er", "low@@", "lo@@", "w@@", "w", "l@@", "o@@", "o", "e@@",
         "r", "x@@", "y@@", "z", "y", "Books", "\xa0", "a\xa0@@", "b", "."]


@pytest.fixture(scope="module", name="tok")
def small():
  return fastbpe.FastBPE(MERGES, VOCAB, ["Books"])


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
  n = len(VOCAB)
  assert tok.encode("\n") == [n, n + 2, n]
  assert tok.unknown_id == n + 1 and tok.vocab_size == n + 3
  assert tok.encode("éé") == [n + 1, n + 1]
  assert tok.encode("low\0 \ud800") == [
      VOCAB.index("low@@"), n + 1, n + 1
  ]
  with pytest.raises(errors.UserError, match="outside the vocabulary of 23"):
    tok.decode([23])


def test_codes(tok):
  """`Books` is a word; what is no word becomes a symbol behind all others."""
  assert tok.code_ids("Books") == [VOCAB.index("Books")]
  assert not tok.reserved_ids
  larger = tok.with_codes(["Books", "Books r/low"])
  assert larger.vocab_size == tok.vocab_size + 1
  assert larger.code_ids("Books r/low") == [
      VOCAB.index("Books"), tok.vocab_size
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


def test_hugging_face_files(tok, tmp_path):
  tokens = [*VOCAB, "", "<unk>", "\n"]
  (tmp_path / "vocab.json").write_text(
      json.dumps({t: i for i, t in enumerate(tokens)})
  )
  (tmp_path / "merges.txt").write_text(
      "#version: 0.1\n" + "".join(f"{a} {b}\n" for a, b in MERGES)
  )
  # As transformers saves it: nothing there says which kind it is.
  (tmp_path / "tokenizer_config.json").write_text('{"unk_token": "<unk>"}')
  other = text.load_tokenizer(tmp_path)
  assert other.encode("low lower\nxyz") == tok.encode("low lower\nxyz")
  assert other.codes == ("Books",)


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


@pytest.mark.parametrize(
    "name, content, says",
    [
        ("codes", None, "No tokenizer in"),
        ("codes", b"l o\n", "codes, line 1: expected 3 fields"),
        ("codes", b"\xff o 1\n", "not UTF-8"),
        ("codes", b"", "is empty"),
        ("codes", b"l o</w> 3\n lo</w> 5\n", "codes, line 2: expected 3"),
        ("codes", b"l o 5\n", "1 pieces of the vocabulary, 'low' the first"),
        ("codes", b"l o 5\nlo w</w>", "the middle of a line, 'lo w</w>'"),
        ("codes", b"l p 5\nlo w</w> 4\n", "no line before makes 'lo'"),
        ("vocab", b"low 9\nlo@@ 2", "the middle of a line, 'lo@@ 2'"),
        ("vocab", b"low 9\nlp@@ 2\n", "pieces of the vocabulary, 'lp@@'"),
        ("vocab", b"low 1\nlow 2\n", "there twice"),
        ("vocab", b"low\n", "vocab, line 1: expected 2 fields"),
        ("tokenizer_config.json", b'{"kind": "fastbpe", "codes": 3}', "a list"),
        ("tokenizer_config.json", b'{"kind": "fastbpe", "newlines": "x"}',
         "no convention"),
        ("tokenizer_config.json", b'{"kind": "fastbpe", "newlines": 3}',
         "no convention"),
        ("tokenizer_config.json", b'{"newlines": null}', "no convention"),
        ("tokenizer_config.json", b'{"codes": ["z\\ud800"]}', "a list"),
        ("tokenizer_config.json", b"[" * 100_000, "not JSON"),
        ("control_codes.txt", b"Books 0.1\n", "control_codes.txt, line 1"),
    ],
)
def test_damaged_files(tmp_path, name, content, says):
  (tmp_path / "codes").write_text("l o 5\nlo w</w> 4\n")
  (tmp_path / "vocab").write_text("low 9\nlo@@ 2\n")
  if content is None:
    (tmp_path / name).unlink()
  else:
    (tmp_path / name).write_bytes(content)
  with pytest.raises(errors.UserError, match=says):
    text.load_tokenizer(tmp_path)


def test_a_code_that_was_added_to_the_vocabulary_by_hand(tmp_path):
  (tmp_path / "codes").write_text("l o 5\n")
  (tmp_path / "vocab").write_text("lo@@ 2\nMine 1\n")
  with pytest.raises(errors.UserError, match="'Mine' the first"):
    text.load_tokenizer(tmp_path)
  (tmp_path / "control_codes.txt").write_text("1.0   Mine\n")
  assert text.load_tokenizer(tmp_path).code_ids("Mine") == [1]


def test_merges_cut_at_a_line_end(tmp_path):
  """Of a folder as Hugging Face keeps it."""
  tokens = [*VOCAB, "", "<unk>", "\n"]
  (tmp_path / "vocab.json").write_text(
      json.dumps({t: i for i, t in enumerate(tokens)})
  )
  (tmp_path / "control_codes.txt").write_text("1.0   Books\n")
  lines = [f"{a} {b}\n" for a, b in MERGES]
  (tmp_path / "merges.txt").write_text("#version: 0.1\n" + "".join(lines))
  text.load_tokenizer(tmp_path)
  for end in range(2, len(lines)):  # The second says that it is fastBPE.
    (tmp_path / "merges.txt").write_text("".join(lines[:end]))
    with pytest.raises(errors.UserError, match=r"vocab\.json do not fit each"):
      text.load_tokenizer(tmp_path)


def test_files_from_windows(tmp_path):
  """With line ends and a byte order mark of its own."""
  for name, content in (("codes", "t h 3\nth e</w> 2\n"),
                        ("vocab", "the 3\nt@@ 2\nh@@ 2\ne 1\n")):
    content = "\ufeff" + content.replace("\n", "\r\n")
    (tmp_path / name).write_bytes(content.encode())
  assert text.load_tokenizer(tmp_path).pieces("the") == ["the"]


@pytest.mark.parametrize("content", ["[]", '{"a": 1}', '{"a": "x"}', "{"])
def test_damaged_json(tmp_path, content):
  (tmp_path / "merges.txt").write_text("#version: 0.1\nl o</w>\n")
  (tmp_path / "vocab.json").write_text(content)
  with pytest.raises(errors.UserError, match=r"vocab\.json"):
    text.load_tokenizer(tmp_path)


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


def _merge_as_printed(word, ranks):
  """What fastBPE does in process_bpe: all places of the best pair."""
  symbols = [*word[:-1], word[-1] + "</w>"]
  while len(symbols) > 1:
    pairs = [p for p in zip(symbols, symbols[1:]) if p in ranks]
    if not pairs:
      break
    first, second = min(pairs, key=ranks.get)
    merged, just_merged = [], False
    for i, symbol in enumerate(symbols):
      if (not just_merged and symbol == first
          and symbols[i + 1:i + 2] == [second]):
        merged.append(first + second)
        just_merged = True
      else:
        if not just_merged:
          merged.append(symbol)
        just_merged = False
    symbols = merged
  return symbols


def test_merging_is_the_originals_on_random_ranks():
  draw = random.Random(0)
  for _ in range(300):
    symbols, ranks = ["a", "b", "c", "a</w>", "b</w>", "c</w>"], {}
    for rank in range(30):
      first, second = draw.choice(symbols), draw.choice(symbols)
      if not first.endswith("</w>") and first + second not in symbols:
        ranks[first, second] = rank
        symbols.append(first + second)
    for _ in range(20):
      word = "".join(draw.choices("abc", k=draw.randint(1, 12)))
      expected = _merge_as_printed(word, ranks)
      assert fastbpe.merge(word, ranks) == expected
      symbols = fastbpe.merge(word, {})
      assert fastbpe._merge_long(symbols, ranks) == expected
  word = "abc" * 60
  assert fastbpe.merge(word, ranks) == _merge_as_printed(word, ranks)
