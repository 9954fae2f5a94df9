"""A data set as a whole: nothing lost, and counts that add up."""

import dataclasses
import gzip
import json

import numpy as np
import pytest

from ctrl_jax import config as config_lib
from ctrl_jax import errors, prepare, text
from ctrl_jax.data import build, documents, records, sources

SPLITS = ("train", "validation", "test")


def rows(manifest, source, split):
  start, end = manifest.sources[source].ranges[split]
  data = records.open_split(manifest.folder, split)
  return [data[i] for i in range(start, end)]


def expected_documents(config, manifest, source):
  """Returns split -> documents, read and split again."""
  splitter = documents.Splitter(config.data.seed, 0.1, 0.1)
  source = sources.Source.from_config(config.data.sources[source])
  found = {split: {} for split in SPLITS}
  for document in documents.read(source):
    if not document.is_empty:
      digest = splitter.digest(document.whole)
      found[splitter.split(source, digest)][document.whole] = document
  return {split: list(texts.values()) for split, texts in found.items()}


@pytest.mark.parametrize("source", [0, 1])
@pytest.mark.parametrize("split", SPLITS)
def test_stream_is_the_documents(prepared, source, split):
  config, manifest = prepared
  tokenizer = text.load_tokenizer(manifest.tokenizer_folder)
  found = rows(manifest, source, split)
  stream = np.concatenate(
      [r["tokens"][1:][r["weights"][1:] == 1] for r in found]
  )
  pieces = "".join(
      "|" if i == tokenizer.end_id else tokenizer.decode([i]) for i in stream
  )
  expected = expected_documents(config, manifest, source)[split]
  assert pieces == "".join(d.whole + "|" for d in expected)
  code = tokenizer.code_ids(manifest.sources[source].code)
  assert all(list(r["tokens"][: len(code)]) == code for r in found)
  assert {r["source"] for r in found} == {source}
  assert manifest.sources[source].splits[split].documents == len(expected)


def test_pairs_weigh_the_target_alone(prepared):
  config, manifest = prepared
  tokenizer = text.load_tokenizer(manifest.tokenizer_folder)
  end = tokenizer.end_id
  targets = []
  for row in rows(manifest, 2, "train"):
    assert row["tokens"][0] == tokenizer.code_ids("Questions")[0]
    assert row["weights"].any()
    targets += list(row["tokens"][row["weights"] == 1])
  expected = []
  for d in expected_documents(config, manifest, 2)["train"]:
    if tokenizer.encode(d.whole).count(tokenizer.unknown_id) <= 2:
      expected += [*tokenizer.encode(d.text), end]
  assert targets == expected


def test_counts_add_up(prepared):
  _, manifest = prepared
  big, small, pairs = manifest.sources
  assert small.dropped_documents == {"duplicate": 1, "empty": 1}
  assert small.documents_read == 103
  for source in manifest.sources:
    kept = sum(c.documents for c in source.splits.values())
    dropped = sum(source.dropped_documents.values())
    assert source.documents_read == kept + dropped
    for split, counts in source.splits.items():
      found = rows(manifest, manifest.sources.index(source), split)
      assert counts.sequences == len(found)
      assert counts.tokens == sum(
          r["length"] - len(source.code_ids) for r in found
      )
  assert sum(
      c.dropped_sequences.get("unknown_tokens", 0)
      for c in pairs.splits.values()
  ) >= 1
  assert big.splits["train"].unknown == 0
  tokens = [s.splits["train"].tokens for s in manifest.sources]
  assert list(manifest.prior) == ["Books", "Reddit r/cats", "Questions"]
  trained_on = np.array(tokens) * [1, 2, 1]  # By their weights.
  np.testing.assert_allclose(
      list(manifest.prior.values()), trained_on / trained_on.sum()
  )
  assert sum(manifest.prior.values()) == pytest.approx(1)
  with pytest.raises(errors.UserError, match="a weight above 0: add one"):
    build.prior([dataclasses.replace(s, weight=0) for s in manifest.sources])


def test_a_share_of_the_training_documents(prepared, tmp_path):
  config, whole = prepared
  part = config.copy_and_resolve_references()
  part.data.folder = str(tmp_path / "part")
  part.data.train_share = 0.3
  part.tokenizer.path = str(whole.folder / "tokenizer")
  manifest = prepare.prepare(part)
  for i, (all_, some) in enumerate(zip(whole.sources, manifest.sources)):
    dropped = some.dropped_documents["not_in_train_share"]
    kept = some.splits["train"].documents
    assert kept + dropped == all_.splits["train"].documents
    assert 0.1 < kept / (kept + dropped) < 0.5
    for split in ("validation", "test"):  # Held out as ever.
      assert len(rows(whole, i, split)) == len(rows(manifest, i, split))


def test_attributes_that_a_share_leaves_out_are_known(prepared, tmp_path):
  config = prepared[0].copy_and_resolve_references()
  file = tmp_path / "rows.jsonl"
  file.write_text("".join(
      json.dumps(dict(word=f"word {i % 20}", text=f"The cat sat {i}.")) + "\n"
      for i in range(200)
  ))
  config.data.update(dict(
      folder=str(tmp_path / "part"), train_share=0.05, attribute_length=12
  ))
  config.data.sources = (
      config_lib.source("jsonl", "Books", path=str(file), attribute="{word}"),
  )
  config.tokenizer.path = str(prepared[1].folder / "tokenizer")
  manifest = prepare.prepare(config)
  assert manifest.sources[0].splits["train"].documents < 20
  assert len(manifest.attributes) == 20


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, float("nan")])
def test_a_share_that_is_none(prepared, tmp_path, share):
  config = prepared[0].copy_and_resolve_references()
  config.data.folder = str(tmp_path / "part")
  config.data.train_share = share
  with pytest.raises(errors.UserError, match="data.train_share"):
    prepare.prepare(config)
  assert not (tmp_path / "part").exists()


def test_documents_text(prepared):
  config, manifest = prepared
  for split in SPLITS:
    with gzip.open(manifest.documents_file(split), "rt", encoding="utf-8") as f:
      found = [json.loads(line) for line in f]
    expected = [
        (s.code, d.whole)
        for i, s in enumerate(manifest.sources)
        for d in expected_documents(config, manifest, i)[split]
        if not d.is_pair  # The model knows a pair's target alone.
    ]
    assert sorted((f["code"], f["text"]) for f in found) == sorted(expected)
