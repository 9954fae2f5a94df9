"""Candidates from sources and from ready rows."""

import json

import pytest

from ctrl_jax import config, errors
from ctrl_jax.data import documents, keyword_candidates, keywords, sources

SPLITTER = documents.Splitter(0, 0.2, 0.2)


def source(**fields):
  return sources.Source.from_config(config.source(**fields))


def test_sources_are_split_by_document_as_prepare_does(tmp_path):
  texts = [
      f"It was number {i}, so they left. Then number {i} was so. Nothing."
      for i in range(60)
  ]
  file = tmp_path / "a.jsonl"
  file.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
  of = source(kind="jsonl", code="A", path=str(file))
  found = list(
      keyword_candidates.from_sources(
          [of], keywords.Inventory(["so"]), keywords.Lengths(1, 2, 2),
          SPLITTER,
      )
  )
  assert len(found) == 180
  for i, text in enumerate(texts):
    own = found[3 * i : 3 * i + 3]
    digest = SPLITTER.digest(text)
    assert {c.split for c in own} == {SPLITTER.split(of, digest)}
    assert [c.reason for c in own] == ["", "", "sentence too short or long"]
    for c in own[:2]:
      assert c.triple.prefix + c.triple.text in text
      assert c.triple.document == digest.hex()[:16]
  assert {c.split for c in found} == set(sources.SPLITS)


def test_a_source_in_one_split(tmp_path):
  file = tmp_path / "a.txt"
  file.write_text("And it was so.\n")
  found = keyword_candidates.from_sources(
      [source(kind="text", code="A", path=str(file), split="test")],
      keywords.Inventory(["so"]), keywords.Lengths(1, 2, 2), SPLITTER,
  )
  assert [c.split for c in found] == ["test"]


def test_token_ids_are_no_text(tmp_path):
  of = source(kind="tfrecords", code="A", path="x")
  with pytest.raises(errors.UserError, match="holds token ids"):
    list(
        keyword_candidates.from_sources(
            [of], keywords.Inventory(["so"]), keywords.Lengths(), SPLITTER
        )
    )


def test_ready_rows(tmp_path):
  rows = [
      dict(keyword="so", prefix="It was", text=f"It was {i} and so on.", x=1)
      for i in range(40)
  ]
  rows[3]["prefix"] = "Other"
  file = tmp_path / "a.jsonl"
  file.write_text("".join(json.dumps(r) + "\n" for r in rows))
  found = list(keyword_candidates.from_triples([str(file)], None, SPLITTER))
  assert [i for i, c in enumerate(found) if c.triple is None] == [3]
  assert found[0].triple[:3] == ("so", "It was", " 0 and so on.")
  assert {c.split for c in found} == set(sources.SPLITS)
  again = keyword_candidates.from_triples([str(file)], None, SPLITTER)
  assert found == list(again)


def test_what_is_trained_on_is_of_a_bases_training_documents(tmp_path):
  def row(i):
    text = f"It was {i} and so they left."
    return keywords.Triple("so", "It was", text[6:], ""), text

  def candidate(i, split):
    triple, text = row(i)
    return keyword_candidates.Candidate(split, triple, "", text.encode())

  def write(name, *numbers):
    file = tmp_path / f"{name}.jsonl"
    text = "\n\n".join(row(i)[1].replace(" and", "  and") for i in numbers)
    file.write_text(json.dumps(dict(text=text)) + "\n")
    return source(kind="jsonl", code="A", path=str(file), split=name)

  sources_ = [write("train", 0, 1), write("validation", 2)]
  mixed = tmp_path / "mixed.jsonl"  # A document with a test sentence.
  mixed.write_text(json.dumps(dict(text=f"{row(3)[1]} {row(4)[1]}")) + "\n")
  sources_.append(source(
      kind="jsonl", code="A", path=str(mixed), split="train"
  ))
  given = [
      candidate(0, "train"), candidate(1, "validation"), candidate(2, "train"),
      candidate(3, "test"), candidate(4, "train"), candidate(5, "train"),
      candidate(6, "test"),
      keyword_candidates.Candidate("train", None, "no keyword", b""),
  ]
  found = list(keyword_candidates.within(given, sources_, SPLITTER, (0, 1)))
  kept = [i for i, c in enumerate(found) if c.triple]
  assert kept == [0, 1, 3, 6]
  assert all(found[i] == given[i] for i in [*kept, 7])
  assert found[2].reason == "of no training document" == found[5].reason
  # Of a share that holds none of the documents nothing is left but the tests.
  none = keyword_candidates.within(given, sources_, SPLITTER, (0, 1e-9))
  assert [c.split for c in none if c.triple] == ["test", "test"]


@pytest.mark.parametrize(
    "line", ["{", "[1]", "3", '{"keyword": "a", "prefix": "b"}',
             '{"keyword": 1, "prefix": "b", "text": "c"}',
             '{"keyword": "a", "prefix": "b", "text": "\\ud800 a"}'],
)
def test_bad_rows(tmp_path, line):
  file = tmp_path / "a.jsonl"
  file.write_text('{"keyword": "a", "prefix": "b", "text": "b a"}\n' + line)
  with pytest.raises(errors.UserError, match=r"a\.jsonl:2: not a JSON object"):
    list(keyword_candidates.from_triples([str(file)], None, SPLITTER))
