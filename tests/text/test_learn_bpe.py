"""Learning merges: fastBPE's own result on a book, and by hand."""

import gzip

import pytest
import shared_data

from ctrl_jax import errors
from ctrl_jax.text import learn_bpe


def test_by_hand():
  words = learn_bpe.count_words(["aab aab\nab  c"])
  assert words == {"aab": 2, "ab": 1, "c": 1}
  merges = learn_bpe.learn_merges(words, 10)
  assert merges == [(("a", "b</w>"), 3), (("a", "ab</w>"), 2)]
  assert learn_bpe.count_pieces(words, [pair for pair, _ in merges]) == [
      ("aab", 2), ("ab", 1), ("c", 1)
  ]
  # Of equal counts the pair whose symbols were met first.
  assert learn_bpe.learn_merges({"xy": 1, "ab": 1}, 1)[0][0] == ("x", "y</w>")
  # Overlapping pairs: aaa holds aa once after merging.
  assert learn_bpe.learn_merges({"aaaa": 1, "b": 9}, 9)[0] == (("a", "a"), 2)


def test_train():
  tok = learn_bpe.train(["low lower low <unk>"] * 3, ["Books"], 4)
  assert tok.pieces("low") == ["low"]
  assert tok.code_ids("Books") == [tok.vocab_size - 1]
  assert tok.decode(tok.encode("lower <unk> low")) == "lower <unk> low"


@pytest.mark.parametrize("words, n, says", [({}, 5, "no text"), ({"a": 1}, 0,
                                                                 "at least 1")])
def test_nothing_to_learn(words, n, says):
  with pytest.raises(errors.UserError, match=says):
    learn_bpe.learn_merges(words, n)


def test_as_the_original_on_a_book():
  folder = shared_data.path("expected/fastbpe")
  book = shared_data.path("books/carroll-alice.txt.gz")
  words = learn_bpe.count_words([gzip.decompress(book.read_bytes()).decode()])
  rows = [
      tuple(line.split(" "))
      for line in (folder / "alice.codes").read_text("utf-8").split("\n")[:-1]
  ]
  expected = [(a, b) for a, b, _ in rows]
  found = learn_bpe.learn_merges(words, 2000)
  same = {pair for pair, _ in found} & set(expected)
  assert len(same) >= 0.98 * len(expected)
  # The sequence of counts does not depend on ties, but for where it is cut.
  same = [int(row[2]) == count for row, (_, count) in zip(rows, found)]
  assert sum(same) >= 1990
  vocab = learn_bpe.count_pieces(words, expected)
  lines = "".join(f"{piece} {count}\n" for piece, count in vocab)
  assert lines == (folder / "alice.vocab").read_bytes().decode("utf-8")
