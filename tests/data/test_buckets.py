"""Files in a bucket; a folder here stands in for it."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import tarfile

import fake_bucket
import pytest
from etils.epath import backend

from ctrl_jax import config, errors
from ctrl_jax.data import archives, buckets, files, sources
from ctrl_jax.data.readers import writing_prompts
from ctrl_jax.interop import tfrecords

LINES = "".join(json.dumps({"text": f"line {i}"}) + "\n" for i in range(9))
PACK = {"": bytes, "gz": gzip.compress, "bz2": bz2.compress,
        "xz": lzma.compress}


@pytest.fixture
def bucket(tmp_path, monkeypatch):
  """The folder that `gs://bucket` names."""
  return fake_bucket.make(tmp_path, monkeypatch)


def texts(path, kind="jsonl"):
  source = sources.Source.from_config(config.source(kind, "A", path=path))
  return [(r.fields["text"], r.where) for r in sources.records(source)]


@pytest.mark.parametrize("end", PACK)
def test_a_glob_of_packed_files(bucket, tmp_path, end):
  end_ = f".{end}" if end else ""
  for folder in (bucket / "deep", tmp_path / "here"):
    folder.mkdir()
    for name in ("b", "a"):
      (folder / f"{name}.jsonl{end_}").write_bytes(PACK[end](LINES.encode()))
    (folder / f"c.jsonl{end_}").mkdir()
  found = texts(f"gs://bucket/deep/*.jsonl{end_}")
  assert [text for text, _ in found] == [
      text for text, _ in texts(f"{tmp_path}/here/*.jsonl{end_}")
  ]
  assert [found[0][1], found[-1][1]] == [
      f"gs://bucket/deep/{name}.jsonl{end_}:{line}"
      for name, line in (("a", 1), ("b", 9))
  ]


def test_other_readers(bucket):
  (bucket / "x.wp_source").write_text("[ WP ] A cat .\n")
  (bucket / "x.wp_target").write_text("It sat .\n")
  [(fields, where)] = writing_prompts.read(["gs://bucket/*.wp_source"])
  assert fields["story"] == "It sat." and where == "gs://bucket/x.wp_source:1"
  (bucket / "x.wp_target").unlink()
  with pytest.raises(errors.UserError, match="x.wp_target' is missing"):
    list(writing_prompts.read(["gs://bucket/*.wp_source"]))
  with tarfile.open(bucket / "a.tgz", "w:gz") as archive:
    archive.addfile(info := tarfile.TarInfo("s/1.story"), io.BytesIO())
    info = tarfile.TarInfo("s/2.story")
    info.size = 4
    archive.addfile(info, io.BytesIO(b"text"))
  assert dict(archives.texts("gs://bucket/a.tgz", ".story")) == {
      "s/1.story": "", "s/2.story": "text"
  }
  for gzipped in (False, True):
    tfrecords.write(bucket / "r", [[1, 2, 3], [4, 5]], gzipped)
    rows = list(tfrecords.rows("gs://bucket/r"))
    assert [row.tolist() for row in rows] == [[1, 2, 3], [4, 5]]


def test_errors_are_those_of_files_here(bucket):
  (bucket / "empty.txt").touch()
  for name, message in (
      ("none.txt", "No file 'gs://bucket/none.txt'. Check"),
      ("*.none", "No file"),
      ("none/*.txt", "No file"),
      ("empty.*", "'gs://bucket/empty.txt' is empty"),
      ("**/a.txt", r"Cannot read 'gs://bucket/\*\*/a.txt'"),
  ):
    with pytest.raises(errors.UserError, match=message):
      files.find([f"gs://bucket/{name}"])
  (bucket / "a.jsonl.gz").write_bytes(gzip.compress(LINES.encode())[:-9])
  with pytest.raises(errors.UserError, match="gs://.*: damaged gzip file"):
    texts("gs://bucket/a.jsonl.gz")
  (bucket / "a.tar").write_bytes(b"none")
  with pytest.raises(errors.UserError, match="a.tar: damaged or no tar"):
    list(archives.texts("gs://bucket/a.tar", ""))
  with pytest.raises(errors.UserError, match="is an address, not a path"):
    files.find(["https://bucket/a.txt"])


class Breaking(io.BytesIO):
  """A connection that ends, or breaks, before the last two bytes."""

  def __init__(self, content, error):
    super().__init__(content[:-2])
    self._error = error

  def read(self, size=-1):
    data = super().read(size)
    if not data and self._error:
      raise self._error
    return data


@pytest.mark.parametrize("end", PACK)
@pytest.mark.parametrize("error", [
    None, OSError("Forbidden: x"), ValueError(), ConnectionResetError(),
])
def test_a_connection_that_breaks_is_no_damage(
    bucket, monkeypatch, end, error
):
  name = f"a.jsonl.{end}" if end else "a.jsonl"
  (bucket / name).write_bytes(PACK[end](LINES.encode()))
  tfrecords.write(bucket / "r", [[1, 2, 3]], gzipped=bool(end))
  monkeypatch.setattr(
      type(backend.fsspec_backend), "open",
      lambda self, path, mode: Breaking(
          (bucket / path.removeprefix("gs://bucket/")).read_bytes(), error
      ),
  )
  passing = not error or isinstance(error, ConnectionError)
  mend = "Try again" if passing else "pip install gcsfs"
  expected = f"Cannot read .*{mend}" if error else "bytes, of which.*Try again"
  with pytest.raises(errors.UserError, match=expected) as e:
    texts(f"gs://bucket/{name}")
  assert "damaged" not in str(e.value) and "\n" not in str(e.value)
  assert e.value.exit_code == (1 if passing else 2)
  with pytest.raises(errors.UserError, match=expected) as e:
    list(tfrecords.rows("gs://bucket/r"))
  assert "damaged" not in str(e.value)
  assert e.value.exit_code == (1 if passing else 2)


def test_a_bucket_that_cannot_be_read(monkeypatch):
  def fail(self, path):
    raise ImportError("no gcsfs")

  monkeypatch.setattr(type(backend.fsspec_backend), "fs", fail)
  for call in (
      lambda: files.find(["gs://bucket/*"]),
      lambda: buckets.size("gs://bucket/a"),
      lambda: buckets.open_file("gs://bucket/a"),
  ):
    with pytest.raises(errors.UserError, match="no gcsfs.*pip install gcsfs"):
      call()


def test_copies(bucket, tmp_path):
  content = bytes(range(256)) * 99
  here = tmp_path / "here"
  here.write_bytes(content)
  buckets.upload(here, "gs://bucket/deep/x")
  assert (bucket / "deep" / "x").read_bytes() == content
  digest = hashlib.sha256()
  buckets.download("gs://bucket/deep/x", tmp_path / "new" / "x", digest)
  assert (tmp_path / "new" / "x").read_bytes() == content
  assert digest.digest() == hashlib.sha256(content).digest()
  assert buckets.size("gs://bucket/deep/x") == len(content)
  assert buckets.size(here) == len(content)
  for path in ("gs://bucket/deep", "gs://bucket/x", tmp_path, tmp_path / "x"):
    assert buckets.size(path) is None
