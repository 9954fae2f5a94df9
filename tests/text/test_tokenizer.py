"""The interface of all tokenizers: what a kind has without doing anything."""

import json

import numpy as np
import pytest

from ctrl_jax import errors, text
from ctrl_jax.text import fastbpe
from ctrl_jax.text import tokenizer as tokenizer_lib


class Letters(tokenizer_lib.Tokenizer):
  """The least that a kind must have: characters, and words after them."""

  unknown_id = None
  end_id = None
  codes = ("Books", "Reddit r/cats")
  code_words = {"Books": 128, "Reddit": 129, "r/cats": 130}
  vocab_size = 131

  def __init__(self, **files):
    self._files = files

  @property
  def tokens(self):
    return [*map(chr, range(128)), *self.code_words]

  def encode(self, text):
    return list(text.encode("ascii"))

  def decode(self, ids):
    return bytes(i for i in ids if i < 128).decode("ascii")

  def pieces(self, text):
    return list(text)

  def files(self):
    return self._files


def test_code_ids_are_one_a_word():
  tok = Letters()
  assert tok.code_ids("Books") == [128]
  assert tok.code_ids(" Reddit  r/cats\n") == [129, 130]
  assert tok.code_ids("Reddit") == [129]
  assert tok.reserved_ids == {128, 129, 130}


@pytest.mark.parametrize("code", ["", "  ", "books", "Books x", "Bookss"])
def test_unknown_codes(code):
  with pytest.raises(errors.UserError) as e:
    Letters().code_ids(code)
  assert str(e.value).startswith(f"Unknown control code {code!r}. ")
  assert str(e.value).endswith("Known: Books, Reddit r/cats.")
  assert ("Did you mean 'Books'?" in str(e.value)) == bool(code.strip())


def test_a_kind_that_cannot_grow():
  tok = Letters()
  assert tok.with_codes(["Reddit r/cats", "Books"]) is tok
  with pytest.raises(errors.UserError, match="Unknown control code 'Legal'"):
    tok.with_codes(["Books", "Legal"])
  with pytest.raises(errors.UserError, match="newlines='training'.*leave the"):
    tok.with_newlines("training")


def test_hash_is_of_names_and_content_in_any_order():
  first = Letters(a=b"1", b=b"2").hash
  assert len(first) == 64
  assert Letters(b=b"2", a=b"1").hash == first
  others = [
      Letters(a=b"1", b=b"3"), Letters(a=b"1", c=b"2"), Letters(a=b"1"),
      Letters(a=b"2", b=b"1"), Letters(a=b"1b2"),
  ]
  assert len({first, *(tok.hash for tok in others)}) == 6


def test_save_makes_the_folder_and_replaces_files(tmp_path):
  folder = tmp_path / "deep" / "tokenizer"
  for content in (b"old", b"n"):
    Letters(one=content, two=b"\xff\r\n").save(str(folder))
    found = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert found == {"one": content, "two": b"\xff\r\n"}


def test_config_file():
  content = tokenizer_lib.config_file("letters", ("Bücher",), newlines="x")
  assert json.loads(content) == {
      "kind": "letters", "codes": ["Bücher"], "newlines": "x"
  }
  assert "Bücher".encode() in content and content.endswith(b"}\n")


def test_found_in_the_folder_named_tokenizer(tmp_path):
  tok = fastbpe.FastBPE([("a", "b</w>")], ["a@@", "b", "ab"])
  tok.save(tmp_path / "tokenizer")
  assert text.has_tokenizer(tmp_path)
  assert text.load_tokenizer(tmp_path).hash == tok.hash
  assert not text.has_tokenizer(tmp_path.parent)


def test_another_tokenizer_than_the_workdirs(tmp_path, monkeypatch):
  tok = fastbpe.FastBPE([("a", "b</w>")], ["a@@", "b", "ab"])
  tok.save(tmp_path / "tokenizer")
  file = tmp_path / "config.json"
  file.write_text(json.dumps(dict(tokenizer_hash=tok.hash)))
  assert text.load_tokenizer(tmp_path).hash == tok.hash
  # One that has as many tokens, in another order.
  fastbpe.FastBPE([("a", "b</w>")], ["ab", "b", "a@@"]).save(
      tmp_path / "tokenizer"
  )
  monkeypatch.chdir(tmp_path)
  for path in (tmp_path, tmp_path / "tokenizer", ".", "tokenizer"):
    with pytest.raises(errors.UserError, match="hash is not that in config"):
      text.load_tokenizer(path)
  for content in ("{}", "[]", "{"):  # Nothing is known.
    file.write_text(content)
    assert text.load_tokenizer(tmp_path).encode("ab") == [0]


def test_ids_are_whole_numbers_in_the_vocabulary():
  size = Letters().vocab_size
  ids = Letters().check_ids(np.array([0, size - 1], np.int16))
  assert ids == [0, size - 1] and type(ids[0]) is int


@pytest.mark.parametrize(
    "bad, says",
    [
        (1.0, r"id 1\.0 is no whole number"),
        ("1", "'1' is no whole number"),
        ([1], "no whole number"),
        (-1, "-1 is outside the vocabulary"),
        (131, "131 is outside the vocabulary"),
    ],
)
def test_what_is_no_id(bad, says):
  with pytest.raises(errors.UserError, match=says):
    Letters().check_ids([0, bad])
