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
