"""Splits, duplicates, samples."""

import collections
import random

from ctrl_jax import config
from ctrl_jax.data import documents, sources


def source(**kwargs):
  return sources.Source.from_config(
      config.source("text", "A", path="x", **kwargs)
  )


def splits(seed, texts, **kwargs):
  splitter = documents.Splitter(seed, 0.1, 0.2)
  return [splitter.split(source(**kwargs), splitter.digest(t)) for t in texts]


def test_split_is_stable_and_has_its_shares():
  texts = [f"document {i}" for i in range(4000)]
  first = splits(0, texts)
  # Known answers: a change here puts test documents into training.
  assert splits(0, ["a", "b", "c", "document 12"]) == [
      "train", "validation", "train", "test",
  ]
  assert first[::-1] == splits(0, texts[::-1])
  shares = collections.Counter(first)
  assert abs(shares["validation"] / 4000 - 0.1) < 0.02
  assert abs(shares["test"] / 4000 - 0.2) < 0.02
  assert first != splits(1, texts)
  assert set(splits(0, texts, split="test")) == {"test"}


def test_seen(tmp_path):
  splitter = documents.Splitter(0, 0.1, 0.1)
  with documents.Seen(tmp_path / "seen.db") as seen:
    digests = [splitter.digest(str(i)) for i in range(1000)]
    assert all(seen.add(d) for d in digests)
    assert not any(seen.add(d) for d in digests)
  assert not list(tmp_path.iterdir())


def test_sample_depends_on_neither_order_nor_duplicates():
  splitter = documents.Splitter(0, 0.1, 0.1)
  texts = [f"{i} " * (i % 9 + 1) for i in range(500)]

  def sample(texts):
    kept = documents.Sample(1000)
    for text in texts:
      kept.add(splitter.digest(text), text)
    return kept.texts()

  expected = sample(texts)
  size = sum(map(len, expected))
  assert 1000 <= size < 1000 + max(map(len, texts))
  shuffled = texts + texts[:100]
  random.Random(0).shuffle(shuffled)
  assert sample(shuffled) == expected
  # All of it where it fits.
  assert sorted(sample(texts[:5])) == sorted(texts[:5])


def test_disjoint_shares_cover_everything():
  splitter = documents.Splitter(0, 0.1, 0.1)
  digests = [splitter.digest(str(i)) for i in range(2000)]
  first = [splitter.is_in(d, (0.0, 0.25)) for d in digests]
  rest = [splitter.is_in(d, (0.25, 1.0)) for d in digests]
  assert all(a != b for a, b in zip(first, rest))
  assert abs(sum(first) / 2000 - 0.25) < 0.03
  # A share is split as the whole is.
  source = sources.Source("text", "A", ("a",))
  kept = [d for d, is_in in zip(digests, first) if is_in]
  splits = [splitter.split(source, d) for d in kept]
  assert abs(splits.count("test") / len(splits) - 0.1) < 0.04


def test_a_share_of_training_lies_within_a_larger_one():
  splitter = documents.Splitter(0, 0.1, 0.1)
  found = [documents.Document("x: ", f"text {i}", True) for i in range(4000)]
  kept = {
      share: {d for d in found if splitter.is_in_train_share(d, share)}
      for share in (0.01, 0.1, 1.0)
  }
  assert kept[0.01] < kept[0.1] < kept[1.0] == set(found)
  assert abs(len(kept[0.1]) - 400) < 60 and 20 < len(kept[0.01]) < 60
  # Another template keeps the same pairs.
  other = [d._replace(prompt="", attribute="x") for d in found]
  assert {d.text for d in other if splitter.is_in_train_share(d, 0.1)} == {
      d.text for d in kept[0.1]
  }
  # Neither split nor tokenizer has a say in it.
  digests = [splitter.digest(d.whole) for d in kept[0.1]]
  assert 0.03 < sum(splitter.place(d) == "test" for d in digests) / 400 < 0.2
  assert 0.4 < sum(splitter.is_in_share(d, 0.5) for d in digests) / 400 < 0.6


def test_excluded_texts_are_found_however_spaced(tmp_path):
  file = tmp_path / "held_out.jsonl"
  file.write_text(
      '{"text": " sat on a  mat, and slept."}\n{"text": "too short"}\n'
  )
  excluded = documents.Excluded((str(file),))
  assert excluded.is_in("The cat sat on\na mat, and slept. Then it woke.")
  assert not excluded.is_in("The cat sat on a mat, and woke.")
  assert not excluded.is_in("This is too short to count.")
  assert not documents.Excluded(()).is_in("sat on a mat, and slept.")


def test_an_attribute_makes_another_document():
  one = documents.Document("a ", "b", True, "x")
  assert one.identity != one._replace(attribute="y").identity
  assert one._replace(attribute="").identity == one.whole
