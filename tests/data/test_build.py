"""A data set as a whole: nothing lost, reproducible, readable by others."""

import gzip
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow_datasets as tfds

from ctrl_jax import errors, text
from ctrl_jax.data import documents, records, sources
from ctrl_jax.data import manifest as manifest_lib

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
  np.testing.assert_allclose(
      list(manifest.prior.values()), np.array(tokens) / sum(tokens)
  )
  assert sum(manifest.prior.values()) == pytest.approx(1)


def test_tensorflow_datasets_reads_it(prepared):
  _, manifest = prepared
  builder = tfds.builder_from_directory(manifest.folder)
  for split in SPLITS:
    data = builder.as_data_source(split)
    assert len(data) == manifest.size(split) > 0
  record = data[0]
  assert record["tokens"].shape == record["weights"].shape == (17,)
  assert record["tokens"].dtype == np.int32
  assert record["weights"].dtype == np.uint8


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


def test_many_shards_and_their_order(tmp_path, prepared):
  _, manifest = prepared
  writer = records.Writer(tmp_path, "train", 17, shard_records=7)
  tokens = np.arange(20 * 17, dtype=np.int32).reshape(20, 17)
  weights = np.ones((20, 17), np.uint8)
  for part in np.split(np.arange(20), [3, 15]):
    writer.write(
        records.sequences.Rows(
            tokens[part], weights[part], np.full(part.size, 17, np.int32)
        ),
        0,
    )
  info, _ = writer.finish()
  records.write_info(tmp_path, 17, [info])
  assert info.shard_lengths == [7, 7, 6]
  data = records.open_split(tmp_path, "train")
  np.testing.assert_array_equal([r["tokens"] for r in data], tokens)


def copy(manifest, tmp_path):
  shutil.copytree(manifest.folder, tmp_path / "copy")
  return tmp_path / "copy"


def test_truncated_and_flipped_records(prepared, tmp_path):
  folder = copy(prepared[1], tmp_path)
  [shard] = folder.glob("*train.array_record*")
  content = shard.read_bytes()
  shard.write_bytes(content[:-100])
  with pytest.raises(errors.UserError, match=f"{shard.name}.* were written"):
    manifest_lib.Manifest.load(folder)
  flipped = bytearray(content)
  for i in range(len(content) // 3, len(content) // 3 + 200):
    flipped[i] ^= 1
  shard.write_bytes(flipped)
  manifest = manifest_lib.Manifest.load(folder)
  with pytest.raises(errors.UserError, match=f"{shard.name}.* not what was"):
    manifest.verify()
  with pytest.raises(errors.UserError, match=f"Damaged records.*{shard.name}"):
    list(records.open_split(folder, "train"))


def test_bad_manifests(prepared, tmp_path):
  with pytest.raises(errors.UserError, match="No prepared data set .* Do so."):
    manifest_lib.Manifest.load(tmp_path, hint="Do so.")
  folder = copy(prepared[1], tmp_path)
  file = folder / "manifest.json"
  content = json.loads(file.read_text())
  file.write_text("{")
  with pytest.raises(errors.UserError, match="is damaged"):
    manifest_lib.Manifest.load(folder)
  file.write_text(json.dumps({**content, "version": 99}))
  with pytest.raises(errors.UserError, match="has version 99"):
    manifest_lib.Manifest.load(folder)
  file.write_text(json.dumps({**content, "more": 1}))
  with pytest.raises(errors.UserError, match="is damaged"):
    manifest_lib.Manifest.load(folder)
  file.write_text(json.dumps(content))
  assert manifest_lib.Manifest.load(folder).hash == prepared[1].hash
  (folder / "tokenizer" / "sentencepiece.model").unlink()
  with pytest.raises(errors.UserError, match="model' is missing"):
    manifest_lib.Manifest.load(folder)


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs Linux's full device"
)
def test_a_full_disk_is_one_line(tmp_path):
  (tmp_path / "train-0").symlink_to("/dev/full")
  writer = records.Writer(tmp_path, "train", 3)
  rows = records.sequences.cut(
      np.arange(9, dtype=np.int32), np.ones(9, np.uint8), [1], 3
  )
  with pytest.raises(errors.UserError, match="Cannot write .*No space left"):
    writer.write(rows, 0)
    writer.close()
