"""Records on disk: their order, other readers, and damage that is named."""

import os

import numpy as np
import pytest
import tensorflow_datasets as tfds

from ctrl_jax import errors
from ctrl_jax.data import records, sequences


def test_tensorflow_datasets_reads_it(prepared):
  _, manifest = prepared
  builder = tfds.builder_from_directory(manifest.folder)
  for split in ("train", "validation", "test"):
    data = builder.as_data_source(split)
    assert len(data) == manifest.size(split) > 0
  record = data[0]
  assert record["tokens"].shape == record["weights"].shape == (17,)
  assert record["tokens"].dtype == np.int32
  assert record["weights"].dtype == np.uint8


def test_many_shards_and_their_order(tmp_path):
  writer = records.Writer(tmp_path, "train", 17, shard_records=7)
  tokens = np.arange(20 * 17, dtype=np.int32).reshape(20, 17)
  weights = np.ones((20, 17), np.uint8)
  for part in np.split(np.arange(20), [3, 15]):
    writer.write(
        sequences.Rows(
            tokens[part], weights[part], np.full(part.size, 17, np.int32)
        ),
        0,
    )
  info, _ = writer.finish()
  records.write_info(tmp_path, 17, [info])
  assert info.shard_lengths == [7, 7, 6]
  data = records.open_split(tmp_path, "train")
  np.testing.assert_array_equal([r["tokens"] for r in data], tokens)


def rows(count, width=3):
  """Rows of one token each, all different."""
  tokens = np.arange(count * (width - 1), dtype=np.int32)
  return sequences.cut(tokens, np.ones(tokens.size, np.uint8), [1], width)


def test_the_hash_is_of_the_content_and_its_source(tmp_path):

  def written(name, *writes):
    (tmp_path / name).mkdir()
    writer = records.Writer(tmp_path / name, "train", 3)
    for found, source in writes:
      writer.write(found, source)
    return writer.finish()[1]

  first = written("a", (rows(4), 0), (rows(2), 1))
  assert written("b", (rows(4), 0), (rows(2), 1)) == first
  assert written("c", (rows(4), 0), (rows(2), 0)) != first
  assert written("d", (rows(2), 1), (rows(4), 0)) != first


def test_splits_without_records_are_empty(tmp_path):
  writers = [records.Writer(tmp_path, s, 3) for s in ("train", "test")]
  writers[0].write(rows(5), 2)
  records.write_info(tmp_path, 3, [w.finish()[0] for w in writers])
  found = records.open_split(tmp_path, "train")
  assert len(found) == 5 and {r["source"] for r in found} == {2}
  with pytest.raises(IndexError):
    found[5]
  assert list(records.open_split(tmp_path, "test")) == []


def test_damage_names_the_file(flipped, tmp_path):
  match = f"Damaged records.*{flipped.name}"
  with pytest.raises(errors.UserError, match=match):
    list(records.open_split(flipped.parent, "train"))
  with pytest.raises(errors.UserError, match="Damaged records in .*--force"):
    records.open_split(tmp_path / "nothing", "train")


@pytest.mark.parametrize("name", ["dataset_info.json", "features.json"])
def test_damaged_descriptions(copied, name):
  file = copied / name
  for content in ("{", '{"nam": 3}', "[]"):
    file.write_text(content)
    with pytest.raises(errors.UserError, match="Damaged records in .*--force"):
      records.open_split(copied, "train")


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs Linux's full device"
)
def test_a_full_disk_is_one_line(tmp_path):
  (tmp_path / "train-0").symlink_to("/dev/full")
  writer = records.Writer(tmp_path, "train", 3)
  with pytest.raises(errors.UserError, match="Cannot write .*No space left"):
    writer.write(rows(5), 0)
    writer.close()


def test_attributes_are_padded_on_the_right(tmp_path):
  writer = records.Writer(tmp_path, "train", 3, attribute_length=4)
  writer.write(rows(2), 0, np.array([7, 8], np.int32))
  writer.write(rows(1), 0, np.zeros(0, np.int32))
  info, digest = writer.finish()
  records.write_info(tmp_path, 3, [info], 4)
  found = list(records.open_split(tmp_path, "train"))
  assert [list(r["attribute"]) for r in found] == [[7, 8, 0, 0]] * 2 + [[0] * 4]
  assert [r["attribute_length"] for r in found] == [2, 2, 0]
  (tmp_path / "b").mkdir()
  other = records.Writer(tmp_path / "b", "train", 3, attribute_length=4)
  other.write(rows(2), 0, np.array([7, 9], np.int32))
  other.write(rows(1), 0, np.zeros(0, np.int32))
  assert other.finish()[1] != digest
