"""TFRecords: the original tool's own, round trips, and damage that is named."""

import gzip

import pytest
import shared_data

from ctrl_jax import errors
from ctrl_jax.interop import tfrecords, wire

ROWS = [[5, 1, 2, 3], [5, 300, 2**31 - 1], [7, 0]]


@pytest.mark.parametrize("gzipped", [False, True])
def test_round_trip(tmp_path, gzipped):
  file = tmp_path / "a.tfrecords"
  assert tfrecords.write(file, ROWS, gzipped) == 3
  assert [row.tolist() for row in tfrecords.rows(file)] == ROWS


def test_the_originals_file(tmp_path):
  file = shared_data.path("expected/tfrecords/sample.txt.tfrecords")
  found = list(tfrecords.rows(file))
  assert {len(row) for row in found} == {257}
  assert len({int(row[0]) for row in found}) == 1
  again = tmp_path / "again"
  tfrecords.write(again, found)
  # The order of the features is a map's, so bytes may differ.
  for a, b in zip(tfrecords.read(again), tfrecords.read(file), strict=True):
    assert {k: x.tolist() for k, x in a.items()} == (
        {k: x.tolist() for k, x in b.items()}
    )


@pytest.mark.parametrize(
    "bad, says",
    [([3], "at least one of text"), ([], "at least one"), ([1, -1], "from 0"),
     ([1, 2**31], "below"), ([1, 2.0], "whole numbers"), (5, "whole numbers")],
)
def test_what_is_no_sequence_leaves_the_old_file(tmp_path, bad, says):
  file = tmp_path / "a"
  tfrecords.write(file, ROWS)
  with pytest.raises(errors.UserError, match=f"sequence 2: .*{says}"):
    tfrecords.write(file, [[1, 2], bad])
  assert [row.tolist() for row in tfrecords.rows(file)] == ROWS
  assert [f.name for f in tmp_path.iterdir()] == ["a"]


def test_records_at_their_places(tmp_path):
  file = tmp_path / "a.tfrecords"
  tfrecords.write(file, ROWS)
  assert not tfrecords.is_gzipped(file)
  places = list(tfrecords.places(file))
  assert len({crc for _, crc, _ in places}) == 3
  for (at, crc, row), expected in zip(places[::-1], ROWS[::-1], strict=True):
    found, again = tfrecords.row_at(file, at)
    assert row.tolist() == again.tolist() == expected and found == crc
  with pytest.raises(errors.UserError, match="byte 3: damaged"):
    tfrecords.row_at(file, 3)
  with pytest.raises(errors.UserError, match="byte 9999: damaged"):
    tfrecords.row_at(file, 9999)
  with pytest.raises(errors.UserError, match="No file"):
    tfrecords.row_at(tmp_path / "none", 0)
  packed = tmp_path / "b"
  tfrecords.write(packed, ROWS, gzipped=True)
  assert tfrecords.is_gzipped(packed)
  # In the file as it is when unpacked.
  assert [p[:2] for p in tfrecords.places(packed)] == [p[:2] for p in places]


def test_values_that_are_not_packed_and_negative():
  one = wire.message((1, 3), (1, -4))
  feature = wire.message((3, one))
  entry = wire.message((1, b"input"), (2, feature))
  data = wire.message((1, wire.message((1, entry))))
  assert tfrecords._example(data)["input"].tolist() == [3, -4]


def test_every_flipped_bit_is_noticed(tmp_path):
  file = tmp_path / "a"
  tfrecords.write(file, ROWS)
  whole = file.read_bytes()
  for at in range(len(whole)):
    broken = bytearray(whole)
    broken[at] ^= 4
    file.write_bytes(broken)
    with pytest.raises(errors.UserError, match="record [123]: damaged"):
      list(tfrecords.read(file))
  for end in range(1, len(whole)):
    file.write_bytes(whole[:end])
    try:
      found = list(tfrecords.read(file))
    except errors.UserError as e:
      assert "damaged or cut short" in str(e)
    else:
      assert len(found) in (1, 2)  # Cut between two records.
  file.write_bytes(gzip.compress(whole)[:-9])
  with pytest.raises(errors.UserError, match="damaged"):
    list(tfrecords.read(file))
  with pytest.raises(errors.UserError, match="No file"):
    list(tfrecords.read(tmp_path / "none"))


@pytest.mark.parametrize(
    "features, says",
    [
        (dict(input=[1, 2]), "no int64 feature 'output'"),
        (dict(input=[1, 2], output=[3, 3]), "moved by one token"),
        (dict(input=[], output=[]), "moved by one token"),
        (dict(input=[1, -2], output=[-2, 3]), "token id"),
    ],
)
def test_records_of_another_tool(tmp_path, monkeypatch, features, says):
  file = tmp_path / "a"
  real = tfrecords._to_example
  monkeypatch.setattr(tfrecords, "_to_example", lambda _: real(features))
  tfrecords.write(file, [[1, 2]])
  with pytest.raises(errors.UserError, match=says):
    list(tfrecords.rows(file))


def test_content_that_is_no_example(tmp_path, monkeypatch):
  monkeypatch.setattr(tfrecords, "_to_example", lambda _: b"\xff\xff")
  tfrecords.write(tmp_path / "a", [[1, 2]])
  with pytest.raises(errors.UserError, match=r"no tf\.train\.Example"):
    list(tfrecords.read(tmp_path / "a"))
