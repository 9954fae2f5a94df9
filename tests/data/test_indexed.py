import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.data import indexed
from ctrl_jax.interop import tfrecords

ROWS = [[7, 1, 2], [7, 3, 4, 5, 6], [8, 9]]


@pytest.fixture
def folder(tmp_path):
  """An index over one file, of which record 1 is held out."""
  file = tmp_path / "a.tfrecords"
  tfrecords.write(file, ROWS)
  found = list(tfrecords.places(file))

  def place(record, source):
    at, crc, _ = found[record]
    return 0, at, source, crc

  (tmp_path / "index").mkdir()
  indexed.write(
      tmp_path / "index", [str(file)], [[7], []], 6,
      {
          "train": [place(0, 0), place(2, 1)],
          "validation": [place(1, 0)],
          "test": [],
      },
  )
  return tmp_path / "index"


def test_records(folder):
  assert indexed.is_index(folder) and not indexed.is_index(folder.parent)
  first, second = indexed.open_split(folder, "train")
  assert first["tokens"].tolist() == [7, 1, 2, 0, 0, 0]
  assert first["weights"].tolist() == [0, 1, 1, 0, 0, 0]
  assert (first["length"], first["source"]) == (3, 0)
  # Without a code, the first token is no target.
  assert second["tokens"].tolist() == [8, 9, 0, 0, 0, 0]
  assert second["weights"].tolist() == [0, 1, 0, 0, 0, 0]
  assert second["source"] == 1
  assert {key: value.dtype for key, value in first.items()} == dict(
      tokens=np.int32, weights=np.uint8, length=np.int32, source=np.int32
  )
  assert len(indexed.open_split(folder, "validation")) == 1
  assert len(indexed.open_split(folder, "test")) == 0


def test_a_record_that_is_another_now(folder, tmp_path):
  """Of the same size, with good checksums of its own."""
  file = tmp_path / "a.tfrecords"
  size = file.stat().st_size
  data = indexed.open_split(folder, "validation")
  tfrecords.write(file, [[7, 1, 2], [7, 3, 4, 5, 9], [8, 9]])
  assert file.stat().st_size == size
  with pytest.raises(errors.UserError, match="another than the one"):
    data[0]
  # The others are what they were.
  assert len(list(indexed.open_split(folder, "train"))) == 2


@pytest.mark.parametrize(
    "name, content",
    [
        ("tfrecords.json", b"{"),
        ("tfrecords.json", b"[]"),
        ("tfrecords.json", b'{"files": [{"path": "a", "byt": 3}]}'),
        ("train.npy", b"no array"),
        ("train.npy", None),
    ],
)
def test_a_damaged_index(folder, name, content):
  (folder / name).unlink()
  if content is not None:
    (folder / name).write_bytes(content)
  with pytest.raises(errors.UserError, match="is damaged.*to index anew"):
    indexed.open_split(folder, "train")


def test_an_index_of_an_earlier_version(folder):
  """It had no checksums."""
  np.save(folder / "train.npy", np.zeros((2, 3), np.int64))
  with pytest.raises(errors.UserError, match="earlier version.*index anew"):
    indexed.open_split(folder, "train")
