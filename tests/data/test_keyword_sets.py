"""Sets of triples on disk: limits, determinism, damage."""

import collections
import random

import pytest

from ctrl_jax import errors
from ctrl_jax.data import documents, keyword_sets, keywords
from ctrl_jax.data.keyword_candidates import Candidate

SPLITTER = documents.Splitter(0, 0.1, 0.3)


def candidate(keyword, i, split=None):
  sentence = f"It is {i} and {keyword}."
  digest = SPLITTER.digest(sentence)
  triple = keywords.Triple(keyword, "It is", sentence[5:], digest.hex()[:16])
  return Candidate(split or SPLITTER.place(digest), triple, "", digest)


def candidates(**counts):
  return [candidate(k, i) for k, n in counts.items() for i in range(n)]


def write(folder, found, **limits):
  return keyword_sets.write(
      folder, found, keyword_sets.Limits(**limits), {"seed": 0}
  )


def test_everything_is_kept_and_counted(tmp_path):
  found = candidates(so=100, then=50)
  dropped = Candidate("train", None, "no keyword", b"x" * 32)
  made = write(tmp_path / "set", [*found, dropped, dropped, found[0]])
  assert made.keywords == ("so", "then")
  assert made.dropped == {"duplicate sentence": 1, "no keyword": 2}
  for split in keyword_sets.SPLITS:
    triples = made.read(split)
    assert sorted(triples) == sorted(
        c.triple for c in found if c.split == split
    )
    assert made.size(split) == len(triples)
    counts = collections.Counter(t.keyword for t in triples)
    assert counts == {k: made.counts[k][split] for k in made.keywords}
  # Keywords are mixed.
  first = [t.keyword for t in made.read("train")[:30]]
  assert 3 < first.count("so") < 30
  assert sorted(p.name for p in made.folder.iterdir()) == [
      "manifest.json", "test.jsonl.gz", "train.jsonl.gz", "validation.jsonl.gz",
  ]
  assert "2 no keyword" in made.report() and "EMPTY" not in made.report()


def test_an_empty_split_is_told(tmp_path):
  found = [candidate("so", i, split) for i, split in enumerate(
      ["train", "train", "validation"]
  )]
  assert write(tmp_path / "set", found).report().splitlines()[-1] == (
      "The test split is EMPTY: raise data.test_fraction, or add text."
  )


def test_order_does_not_matter(tmp_path):
  found = candidates(so=200, then=100)
  one = write(tmp_path / "one", found, max_per_keyword=20)
  random.Random(1).shuffle(found)
  two = write(tmp_path / "two", found, max_per_keyword=20)
  for name in ("train.jsonl.gz", "test.jsonl.gz", "manifest.json"):
    assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes()
  assert one.counts["so"]["train"] == 20
  assert one.dropped == {"over max_per_keyword": 300 - sum(
      one.size(s) for s in keyword_sets.SPLITS
  )}


def test_no_limit(tmp_path):
  made = write(tmp_path / "set", candidates(so=50), max_per_keyword=0)
  assert sum(made.counts["so"].values()) == 50


def test_balanced_test_set_and_rare_keywords(tmp_path):
  found = [
      *candidates(so=200, then=100),
      *(candidate("seldom", i, "test") for i in range(40)),
      *(candidate("rare", i, "train") for i in range(30)),
      candidate("rarest", 0, "train"),
      candidate("rarest", 1, "validation"),
  ]
  made = write(tmp_path / "set", found, test_per_keyword=15, min_train=2)
  assert {k: c["test"] for k, c in made.counts.items()} == {
      "so": 15, "then": 15, "rare": 0,
  }
  assert len(made.read("test")) == 30
  assert made.dropped["keyword too rare in train"] == 42


@pytest.mark.parametrize(
    "found, limits, message",
    [
        ([], {}, r"No training triple is left \(there were no sentences\)"),
        ([Candidate("train", None, "no keyword", b"")], {}, "1 no keyword"),
        (candidates(so=20), dict(min_train=99), "too rare in train"),
        (candidates(so=20), dict(test_per_keyword=99), "test_per_keyword=99"),
    ],
)
def test_nothing_left(tmp_path, found, limits, message):
  with pytest.raises(errors.UserError, match=message):
    write(tmp_path / "set", found, **limits)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "limits",
    [dict(max_per_keyword=-1), dict(min_train=0), dict(test_per_keyword=-1),
     dict(max_per_keyword=5, test_per_keyword=6)],
)
def test_bad_limits(limits):
  with pytest.raises(errors.UserError, match="min_train"):
    keyword_sets.Limits(**limits)


def test_damage(tmp_path):
  folder = write(tmp_path / "set", candidates(so=20)).folder
  assert keyword_sets.is_set(folder)
  file = folder / "train.jsonl.gz"
  content = file.read_bytes()
  for bad in (content[:-1], content[:30] + b"??" + content[32:]):
    file.write_bytes(bad)
    with pytest.raises(errors.UserError, match=r"Damaged .*train\.jsonl\.gz"):
      keyword_sets.KeywordSet.load(folder)
  file.unlink()
  with pytest.raises(errors.UserError, match="missing"):
    keyword_sets.KeywordSet.load(folder)
  for text in ("{", "[]", '{"kind": "other"}'):
    (folder / "manifest.json").write_text(text)
    with pytest.raises(errors.UserError, match="no manifest of a keyword set"):
      keyword_sets.KeywordSet.load(folder)
    assert not keyword_sets.is_set(folder)
  with pytest.raises(errors.UserError, match=r"ctrl_jax\.keywords"):
    keyword_sets.KeywordSet.load(tmp_path / "nowhere")
