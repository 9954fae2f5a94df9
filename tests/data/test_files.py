"""Text files: which ones a path means, and their lines."""

import bz2
import gzip
import lzma

import pytest

from ctrl_jax import errors
from ctrl_jax.data import files


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """An empty folder, which the variable SOME_FOLDER names."""
  monkeypatch.setenv("SOME_FOLDER", str(tmp_path))
  return tmp_path


def test_variables_and_home(folder, monkeypatch):
  monkeypatch.setenv("HOME", "/home/me")
  assert files.expand("$SOME_FOLDER/x") == f"{folder}/x"
  assert files.expand("~/${SOME_FOLDER}s") == f"/home/me/{folder}s"
  monkeypatch.delenv("SOME_FOLDER")
  with pytest.raises(
      errors.UserError, match="is not set. Set it: export SOME_FOLDER="
  ):
    files.expand("$SOME_FOLDER/x")
  monkeypatch.setenv("SOME_FOLDER", "")
  with pytest.raises(errors.UserError, match="SOME_FOLDER, which is empty"):
    files.expand("$SOME_FOLDER/x")


def test_each_file_once_and_sorted_within_a_glob(folder):
  for name in ("c.txt", "a.txt", "b[1].txt"):
    (folder / name).write_text("x")
  (folder / "d.txt").mkdir()
  found = files.find(["$SOME_FOLDER/c.txt", "$SOME_FOLDER/*.txt"])
  assert found == [f"{folder}/{n}.txt" for n in ("c", "a", "b[1]")]
  # A name with a `[` is no glob where such a file is there.
  assert files.find([f"{folder}/b[1].txt"]) == [f"{folder}/b[1].txt"]


OPEN = {"": open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@pytest.mark.parametrize("suffix", OPEN)
def test_line_ends_and_byte_order_mark(tmp_path, suffix):
  opened = OPEN[suffix]
  path = str(tmp_path / f"a.txt{suffix}")
  with opened(path, "wb") as f:
    f.write(b"\xef\xbb\xbfone\r\ntwo\r\nthree\xe2\x80\xa8\rstill three")
  assert list(files.lines(path)) == [
      "one\n", "two\n", "three\u2028\rstill three"
  ]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is empty"),
        (b"good\nbad \xff\n", r"a\.x:2: not UTF-8 .*0xff .* 4 of"),
    ],
)
def test_bad_files(tmp_path, content, message):
  (tmp_path / "a.x").write_bytes(content)
  with pytest.raises(errors.UserError, match=message) as e:
    for file in files.find([str(tmp_path / "a.x")]):
      list(files.lines(file))
  assert "\n" not in str(e.value)


def test_missing_files_and_damaged_gzip(tmp_path):
  for name in ("none.txt", "*.none"):
    with pytest.raises(errors.UserError, match="No file"):
      files.find([str(tmp_path / name)])
  path = tmp_path / "a.txt.gz"
  path.write_bytes(gzip.compress(b"line\n" * 10_000)[:-20])
  with pytest.raises(errors.UserError, match=r"a\.txt\.gz: damaged gzip file"):
    list(files.lines(str(path)))
  path.write_bytes(b"not gzip")
  with pytest.raises(errors.UserError, match=r"a\.txt\.gz: damaged gzip file"):
    list(files.lines(str(path)))


@pytest.mark.parametrize("suffix, name", [(".bz2", "bz2"), (".xz", "xz")])
def test_damage_of_other_packers(tmp_path, suffix, name):
  path = tmp_path / f"a.txt{suffix}"
  with OPEN[suffix](path, "wb") as f:
    f.write(b"line\n" * 10_000)
  whole = path.read_bytes()
  for content in (whole[:-20], b"not packed"):
    path.write_bytes(content)
    with pytest.raises(errors.UserError, match=f"damaged {name} file after"):
      list(files.lines(str(path)))
  with pytest.raises(FileNotFoundError):
    list(files.lines(str(tmp_path / f"none{suffix}")))


def test_what_python_does_not_unpack(tmp_path):
  path = tmp_path / "a.zst"
  path.write_bytes(b"x")
  with pytest.raises(errors.UserError, match="zstd -d"):
    list(files.lines(str(path)))


def test_json_objects(tmp_path):
  path = tmp_path / "a.jsonl"
  path.write_text('{"a": 1}\n\n[2]\n')
  found = files.json_objects(str(path))
  assert next(found) == ({"a": 1}, f"{path}:1")
  with pytest.raises(errors.UserError, match=r"a\.jsonl:3: not a JSON object"):
    next(found)
