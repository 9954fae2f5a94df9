import io
import tarfile

import pytest

from ctrl_jax import errors
from ctrl_jax.data import archives


def write(path, mode, **members):
  with tarfile.open(path, mode) as tar:
    for name, content in members.items():
      info = tarfile.TarInfo(f"x/{name}.txt")
      info.size = len(content)
      tar.addfile(info, io.BytesIO(content))
  return str(path)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_texts_in_order(tmp_path, mode):
  file = write(tmp_path / "a.tar", mode, b=b"two", a="\u00e9".encode())
  assert archives.is_archive(file)
  assert list(archives.texts(file, ".txt")) == [
      ("x/b.txt", "two"), ("x/a.txt", "\u00e9")
  ]
  assert list(archives.texts(file, ".xml")) == []


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_damage(tmp_path, mode):
  file = write(tmp_path / "a.tar", mode, a=b"\xff")
  with pytest.raises(errors.UserError, match=r"x/a\.txt: not UTF-8"):
    list(archives.texts(file, ".txt"))
  file = write(tmp_path / "a.tar", mode, a=bytes(range(97, 123)) * 10_000)
  content = (tmp_path / "a.tar").read_bytes()
  (tmp_path / "a.tar").write_bytes(content[:len(content) // 2])
  with pytest.raises(errors.UserError, match=r"a\.tar: damaged or no tar"):
    list(archives.texts(file, ".txt"))
  (tmp_path / "a.tar").write_bytes(b"no archive at all" * 100)
  with pytest.raises(errors.UserError, match="damaged or no tar archive"):
    list(archives.texts(file, ".txt"))
  with pytest.raises(FileNotFoundError):
    list(archives.texts(str(tmp_path / "none.tar"), ".txt"))


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_damage_never_loses_a_file(tmp_path, mode):
  members = {name: name.encode() * 300 for name in "abc"}
  file = write(tmp_path / "a.tar", mode, **members)
  whole = (tmp_path / "a.tar").read_bytes()
  right = list(archives.texts(file, ".txt"))
  # A flipped byte of a text that is not packed cannot be seen; of a header it
  # can, and so can a missing end, up to the padding behind it.
  end = len(whole) if mode != "w" else 3 * 1024 + 1
  step = 1 if mode != "w" else 37
  for i in range(1, end, step):
    (tmp_path / "a.tar").write_bytes(whole[:i])
    with pytest.raises(errors.UserError, match="damaged or no tar"):
      list(archives.texts(file, ".txt"))
  for i in range(0, len(whole) if mode != "w" else 512):
    flipped = whole[:i] + bytes([whole[i] ^ 0x10]) + whole[i + 1:]
    (tmp_path / "a.tar").write_bytes(flipped)
    try:
      assert list(archives.texts(file, ".txt")) == right
    except errors.UserError as e:
      assert "damaged or no tar" in str(e)  # noqa: PT017
