"""Sums and means by hand."""

import json

import evaluation_fakes as fakes
import pytest

from ctrl_jax import config, errors
from ctrl_jax.data import documents, sources, statistics

SPLITTER = documents.Splitter(0, 0.25, 0.25)


def source(path, rows, **fields):
  path.write_text("".join(json.dumps(r) + "\n" for r in rows))
  return sources.Source.from_config(
      config.source("jsonl", "A", path=str(path), **fields)
  )


@pytest.mark.parametrize(
    "text, expected",
    [("", 0), ("a", 1), ("a\nb", 1), ("a\n\nb", 2), ("\n\na\n\n\n\nb\n\n", 2)],
)
def test_num_paragraphs(text, expected):
  assert statistics.num_paragraphs(text) == expected


def test_pairs_and_texts(tmp_path):
  pairs = source(
      tmp_path / "pairs",
      [
          dict(q="Two words", a="Three more words\n\nhere"),
          dict(q="One", a="One\n\nTwo\n\nThree Four"),
          dict(q="One", a="One\n\nTwo\n\nThree Four"),
          dict(q="Empty", a=" "),
      ],
      template="{q}", target="{a}", name="pairs",
  )
  texts = source(
      tmp_path / "texts", [dict(text=f"cat {i}") for i in range(100)],
      name="texts",
  )
  seen = []
  found = statistics.collect([pairs, texts], SPLITTER, progress=seen.append)
  assert seen == ["pairs"] * 4 + ["texts"] * 100
  one = found["pairs"]
  assert (one.texts, one.prompts) == (2, 2)
  assert one.means() == dict(
      prompt_words=1.5, prompt_tokens=0, words=4.0, tokens=0, paragraphs=2.5
  )
  two = found["texts"]
  assert (two.texts, two.prompts) == (100, 0)
  assert two.means()["prompt_words"] == 0
  assert two.splits == {
      split: sum(
          SPLITTER.place(SPLITTER.digest(f"cat {i}")) == split
          for i in range(100)
      )
      for split in sources.SPLITS
  }
  both = statistics.total(found.values())
  assert (both.texts, both.prompts, both.words) == (102, 2, 208)
  assert sum(both.splits.values()) == 102
  table = statistics.table(found, with_tokens=False).splitlines()
  assert table[1].split()[-3:] == ["1.5", "4.0", "2.5"]
  assert table[2].split()[-3:] == ["-", "2.0", "1.0"]
  assert table[3].startswith("all") and "tokens" not in table[0]


def test_tokens(tmp_path):
  tokenizer = fakes.tokenizer()
  pair = source(
      tmp_path / "a", [dict(q="cat purr", a="dog bark woof")],
      template="{q}", target="{a}",
  )
  [found] = statistics.collect([pair], SPLITTER, tokenizer).values()
  assert found.prompt_tokens == len(tokenizer.encode("cat purr"))
  assert found.tokens == len(tokenizer.encode("dog bark woof"))
  assert "tokens" in statistics.table({"a": found}, with_tokens=True)


def test_token_ids_are_no_text():
  ids = sources.Source.from_config(config.source("tfrecords", "A", path="x"))
  with pytest.raises(errors.UserError, match="holds token ids"):
    statistics.collect([ids], SPLITTER)
