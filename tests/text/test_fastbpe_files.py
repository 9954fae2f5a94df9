"""Files of CTRL's tokenizer: read, or refused with a reason."""

import json

import pytest
from fastbpe_fakes import MERGES, VOCAB

from ctrl_jax import errors, text
from ctrl_jax.text import fastbpe


def test_hugging_face_files(tmp_path):
  tok = fastbpe.FastBPE(MERGES, VOCAB, ["Books"])
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
