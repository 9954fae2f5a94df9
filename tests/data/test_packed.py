"""Whatever happens to a packed file: its content whole, or an error."""

import bz2
import gzip
import lzma
import os

import pytest

from ctrl_jax.data import packed

PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
FIRST, SECOND = b"first line\n" * 20, b"second line\n" * 20


def read(path, content, format_):
  path.write_bytes(content)
  with packed.open_packed(str(path), format_) as f:
    return f.read()


@pytest.mark.parametrize("format_", PACK)
def test_streams_one_behind_the_other(tmp_path, monkeypatch, format_):
  path, pack = tmp_path / "a", PACK[format_]
  both = pack(FIRST) + pack(SECOND)
  assert read(path, both, format_) == FIRST + SECOND
  assert packed.format_of(str(path)) == format_
  assert read(path, both + bytes(8), format_) == FIRST + SECOND
  if format_ == "xz":
    padded = pack(FIRST) + bytes(4) + pack(SECOND)
    assert read(path, padded, format_) == FIRST + SECOND
  monkeypatch.setattr(packed, "_CHUNK", 3)
  assert read(path, both, format_) == FIRST + SECOND


@pytest.mark.parametrize("format_", PACK)
def test_a_large_file_in_pieces(tmp_path, format_):
  content = os.urandom(1 << 18)
  path = tmp_path / "a"
  path.write_bytes(PACK[format_](content))
  with packed.open_packed(str(path), format_) as f:
    assert b"".join(iter(lambda: f.read(1000), b"")) == content


@pytest.mark.parametrize("format_", PACK)
def test_damage_is_never_a_short_or_wrong_text(tmp_path, format_):
  path, pack = tmp_path / "a", PACK[format_]
  start = len(pack(FIRST))
  whole = pack(FIRST) + pack(SECOND)
  damaged = [whole[:i] for i in range(1, len(whole)) if i != start]
  damaged += [
      whole[:i] + bytes([whole[i] ^ 0x10]) + whole[i + 1:]
      for i in range(len(whole))
  ]
  damaged += [whole + b"more", whole + bytes(4) + b"more"]
  noticed = 0
  for content in damaged:
    try:
      assert read(path, content, format_) == FIRST + SECOND
    except packed.ERRORS as e:
      assert packed.is_damage(e)
      noticed += 1
  # A few bits mean nothing: a gzip header's date, the last byte's padding.
  assert noticed >= len(damaged) - 12


def test_what_is_not_packed_and_what_is_not_there(tmp_path):
  assert read(tmp_path / "a", FIRST, "") == FIRST
  assert packed.format_of(str(tmp_path / "a")) == ""
  for format_ in packed.MAGIC:
    with pytest.raises(FileNotFoundError) as e:
      packed.open_packed(str(tmp_path / "none"), format_)
    assert not packed.is_damage(e.value)
