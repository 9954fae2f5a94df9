"""Files that were cut are told from whole ones, real ones among these."""

import pytest
import shared_data

from ctrl_jax import errors, text
from ctrl_jax.text import bpe_files


def test_rows(tmp_path):
  file = tmp_path / "merges.txt"
  file.write_bytes("\ufeff#version: 0.2\r\na \xa0\r\né b\r\n".encode())
  expected = [["a", "\xa0"], ["é", "b"]]
  assert bpe_files.rows(file, 2, header="#version") == expected
  file.write_text("#version: 0.2\na b\nc\n")
  with pytest.raises(errors.UserError, match=r"\.txt, line 3: expected 2"):
    bpe_files.rows(file, 2, header="#version")
  file.write_text("a b\nc d")
  with pytest.raises(errors.UserError, match="the middle of a line, 'c d'"):
    bpe_files.rows(file, 2)
  with pytest.raises(errors.UserError, match="is missing"):
    bpe_files.rows(tmp_path / "gone", 2)


def test_order(tmp_path):
  merges = [("a", "b"), ("ab", "c</w>"), ("ab", "ab")]
  bpe_files.check_order(merges, tmp_path)
  with pytest.raises(errors.UserError, match="no line before makes 'ab'"):
    bpe_files.check_order(merges[1:], tmp_path)


def test_reachable(tmp_path):
  check = lambda *pieces: bpe_files.check_reachable(
      pieces, lambda piece: piece + "</w>", [("a", "b"), ("ab", "c</w>")],
      lambda piece: piece == "<s>", (tmp_path / "m", tmp_path / "v"),
  )
  # A merge may make what no piece is: `ab`.
  check("c", "abc", "<s>")
  with pytest.raises(errors.UserError, match="m and v .* 2 pieces .* 'bc' the"):
    check("abc", "bc", "cc", "<s>", "a")


def test_real_files_cut_at_any_line_but_few(tmp_path):
  """What `learnbpe` and `getvocab` wrote; the vocabulary lacks some merges."""
  folder = shared_data.path("expected/fastbpe")
  codes = (folder / "alice.codes").read_text().splitlines(keepends=True)
  vocab = (folder / "alice.vocab").read_text()
  (tmp_path / "vocab").write_text(vocab)
  (tmp_path / "codes").write_text("".join(codes))
  assert text.load_tokenizer(tmp_path).vocab_size == len(codes) + 53
  pieces = {line.split(" ")[0] for line in vocab.splitlines()}

  def piece(line):
    symbol = "".join(line.split(" ")[:2])
    whole = symbol.removesuffix(bpe_files.END)
    return whole if whole != symbol else symbol + "@@"

  assert piece(codes[-1]) in pieces
  for end in (1, 500, len(codes) - 1):
    (tmp_path / "codes").write_text("".join(codes[:end]))
    with pytest.raises(errors.UserError, match="are made by no merge"):
      text.load_tokenizer(tmp_path)
