"""SentencePiece: exact round trips, reserved codes, errors a user can mend."""

import pickle
import random
import subprocess
import sys

import pytest
import sentencepiece as spm

from ctrl_jax import errors, text
from ctrl_jax.text import sentencepiece

CODES = ("Books", "Reddit r/legaladvice", "Reddit r/cats")
TEXTS = [
    "Books are read by cats.\n\n\tReddit has cats: r/cats, r/legaladvice.\n",
    "The cat sat on the mat; the dog  ran   away (quickly).\n" * 3,
    "  def f(x):\n    return x + 1  # Wikipedia\n",
]


def train(texts=TEXTS, codes=CODES, vocab_size=160, **kwargs):
  return sentencepiece.train(texts, codes, vocab_size=vocab_size, **kwargs)


@pytest.fixture(scope="module")
def tokenizer():
  return train()


@pytest.mark.parametrize("model_type, size", [("bpe", 160), ("unigram", 110)])
def test_round_trip_of_random_text(model_type, size):
  tokenizer = train(model_type=model_type, vocab_size=size)
  rng = random.Random(0)
  words = ["cat", " ", "  ", "\n", "\t", "Books", "r/cats", "(x)", "~", "</s>"]
  for _ in range(300):
    string = "".join(rng.choices(words, k=rng.randint(0, 12)))
    ids = tokenizer.encode(string)
    assert tokenizer.unknown_id not in ids
    assert tokenizer.decode(ids) == string
    assert len(tokenizer.pieces(string)) == len(ids)


def test_long_text_has_the_ids_of_its_parts(tokenizer):
  lines = [f"{i} the cat sat" + " on" * (i % 7) + "\n" for i in range(800)]
  whole = "".join(lines)
  assert len(whole) > 3 * sentencepiece._ENCODE_CHARS
  expected = [i for line in lines for i in tokenizer.encode(line)]
  assert tokenizer.encode(whole) == expected


def test_ordinary_text_never_yields_a_code(tokenizer):
  reserved = set(tokenizer.code_words.values())
  assert len(reserved) == 4
  for string in (*CODES, "Books", " Reddit Books\nBooks", "<s></s><unk>"):
    ids = tokenizer.encode(string)
    assert not reserved & set(ids)
    assert tokenizer.end_id not in ids
    assert tokenizer.decode(ids) == string


def test_codes(tokenizer):
  books = tokenizer.code_ids("Books")
  legal = tokenizer.code_ids("Reddit r/legaladvice")
  assert len(books) == 1 and len(legal) == 2
  assert tokenizer.code_ids("Reddit") == legal[:1]
  assert tokenizer.code_ids("Reddit r/cats")[0] == legal[0]
  assert tokenizer.decode([*legal, *tokenizer.encode("cat"), 1]) == "cat"
  with pytest.raises(errors.UserError, match="Did you mean 'Books'"):
    tokenizer.code_ids("books")
  with pytest.raises(errors.UserError, match="Unknown control code ''"):
    tokenizer.code_ids("")


def test_unknown_text(tokenizer):
  for string in ("\u4e2d", "\u2581", "a\u2581b", "\x00", "\ud800"):
    assert tokenizer.unknown_id in tokenizer.encode(string)
    assert len(tokenizer.pieces(string)) == len(tokenizer.encode(string))
  assert tokenizer.decode(tokenizer.encode("a\u2581b")) == "a\ufffdb"
  with pytest.raises(errors.UserError, match="outside the vocabulary of 160"):
    tokenizer.decode([160])


def test_training_is_deterministic_and_sees_lines_with_tabs():
  assert train().hash == train().hash
  assert train().hash != train(codes=CODES[:1]).hash
  tabbed = train(["\tzebra zebra zebra\tzebra\n" * 20, *TEXTS])
  assert len(tabbed.pieces("zebra")) < 5


def test_save_load_pickle(tokenizer, tmp_path):
  tokenizer.save(tmp_path / "a")
  loaded = text.load_tokenizer(tmp_path / "a")
  for other in (loaded, pickle.loads(pickle.dumps(tokenizer))):
    assert other.hash == tokenizer.hash
    assert other.codes == CODES
    assert other.encode("the cat\n") == tokenizer.encode("the cat\n")


def test_load_errors(tokenizer, tmp_path):
  with pytest.raises(errors.UserError, match=r"tokenizer_config.json is miss"):
    text.load_tokenizer(tmp_path)
  tokenizer.save(tmp_path)
  model = tmp_path / "sentencepiece.model"
  content = model.read_bytes()
  model.write_bytes(content[: len(content) // 2])
  with pytest.raises(errors.UserError, match="is no SentencePiece model"):
    text.load_tokenizer(tmp_path)
  whole = bytearray(content)
  whole[whole.index("\u2581".encode()) + 1] ^= 0x80
  model.write_bytes(whole)
  with pytest.raises(errors.UserError, match="is no SentencePiece model"):
    text.load_tokenizer(tmp_path)
  model.write_bytes(b"")
  with pytest.raises(errors.UserError, match="is no SentencePiece model"):
    text.load_tokenizer(tmp_path)
  model.unlink()
  with pytest.raises(errors.UserError, match="model' is missing"):
    text.load_tokenizer(tmp_path)
  config = tmp_path / "tokenizer_config.json"
  config.write_text('{"kind": "sentencepeice"}')
  with pytest.raises(errors.UserError, match="Did you mean 'sentencepiece'"):
    text.load_tokenizer(tmp_path)
  config.write_text("{")
  with pytest.raises(errors.UserError, match="is not JSON"):
    text.load_tokenizer(tmp_path)


def test_a_model_cut_short_between_two_of_its_fields(tokenizer, tmp_path):
  """Which SentencePiece reads, and would treat white space otherwise."""
  tokenizer.save(tmp_path)
  file = tmp_path / "sentencepiece.model"
  whole = file.read_bytes()
  cuts = [
      at for at in range(1, len(whole)) if _is_model(whole[:at])
  ]
  assert len(cuts) > 100
  for at in cuts[::20] + cuts[-3:]:
    file.write_bytes(whole[:at])
    with pytest.raises(errors.UserError, match="is no SentencePiece model"):
      text.load_tokenizer(tmp_path)


def test_a_piece_that_is_no_text(tokenizer, tmp_path):
  tokenizer.save(tmp_path)
  file = tmp_path / "sentencepiece.model"
  file.write_bytes(file.read_bytes().replace(b"\xe2\x96\x81", b"\xe2\xff\x81"))
  with pytest.raises(errors.UserError, match="is no SentencePiece model"):
    text.load_tokenizer(tmp_path)


def _is_model(content):
  try:
    return bool(spm.SentencePieceProcessor(model_proto=content))
  except RuntimeError:
    return False


@pytest.mark.parametrize(
    "kwargs, message",
    [
        (dict(vocab_size=5000), r"too small for .*=5000: set it to \d+ or"),
        (dict(vocab_size=20), "smaller than the alphabet"),
        (dict(texts=[]), "no training text"),
        (dict(model_type="bqe"), "Did you mean 'bpe'"),
        (dict(codes=["</s>"]), "cannot be a word of a control code"),
        (dict(codes=["Q A"]), "'Q' cannot be a word of a control code"),
        (dict(codes=["A\0B"]), "cannot be a word of a control code"),
        (dict(codes=["\ud800x"]), "cannot be a word of a control code"),
        (dict(vocab_size=0), "vocab_size=0 must be at least 1"),
        (dict(character_coverage=0.5), "coverage=0.5 from 0.98 to 1"),
    ],
)
def test_training_errors(kwargs, message):
  with pytest.raises(errors.UserError, match=message):
    train(**kwargs)


def test_importing_the_interface_is_cheap():
  code = "import ctrl_jax.text, sys; sys.exit('sentencepiece' in sys.modules)"
  assert subprocess.run([sys.executable, "-c", code]).returncode == 0
