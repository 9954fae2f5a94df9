"""Data sets in a bucket; a folder here stands in for it."""

import json
import shutil
import threading

import fake_bucket
import filelock
import pytest
from etils import epath

from ctrl_jax import config, errors, loading, prepare, statistics
from ctrl_jax.data import (
    bucket_sets,
    buckets,
    build,
    data_set,
    index_tfrecords,
)
from ctrl_jax.data import manifest as manifest_lib

FOLDER = "gs://bucket/data/set"


@pytest.fixture
def bucket(tmp_path, monkeypatch):
  """The folder that `gs://bucket` names; copies of data sets lie beside it."""
  monkeypatch.setenv("CTRL_JAX_CACHE", str(tmp_path / "cache"))
  return fake_bucket.make(tmp_path, monkeypatch)


@pytest.fixture
def there(bucket, prepared):
  """The small data set in the bucket: its folder."""
  return shutil.copytree(prepared[1].folder, bucket / "data" / "set")


def in_bucket(bucket, prepared, **data):
  """Returns the small data set's configuration, all in the bucket."""
  inputs = prepared[1].folder.parent / "inputs"
  shutil.copytree(inputs, bucket / "inputs", dirs_exist_ok=True)
  c = config.default()
  c.update(prepared[0])
  c.data.folder = FOLDER + "/"
  c.data.sources = tuple(
      s | dict(path=tuple(
          p.replace(str(inputs), "gs://bucket/inputs") for p in s["path"]
      ))
      for s in c.data.sources
  )
  c.data.update(data)
  return c


def contents(folder):
  return {
      p.relative_to(folder).as_posix(): p.read_bytes()
      for p in folder.rglob("*") if p.is_file()
  }


def forbid(monkeypatch, module, name):
  def fail(*args, **kwargs):
    raise AssertionError(f"{name} was called")

  monkeypatch.setattr(module, name, fail)


def test_made_in_a_bucket_from_one_it_is_the_same(
    bucket, prepared, tmp_path, monkeypatch
):
  c = in_bucket(bucket, prepared)
  made = prepare.prepare(c)
  assert made.hash == prepared[1].hash and made.files == prepared[1].files
  there = contents(bucket / "data" / "set")
  assert contents(made.folder) == there
  here = contents(prepared[1].folder)
  del there["manifest.json"], here["manifest.json"]  # It names the sources.
  assert there == here
  assert made.config["data"]["sources"][0]["path"] == [
      "gs://bucket/inputs/big.txt"
  ]
  # On another machine.
  monkeypatch.setenv("CTRL_JAX_CACHE", str(tmp_path / "other"))
  loaded = manifest_lib.Manifest.load(FOLDER)
  assert loaded.folder.is_relative_to(tmp_path / "other")
  assert contents(loaded.folder) == contents(made.folder)
  loaded.verify()
  manifest_lib.Manifest.read(FOLDER).verify()
  forbid(monkeypatch, build, "build")
  assert prepare.prepare(c) == loaded
  c.data.seed = 5
  with pytest.raises(errors.UserError, match="/set/' was made .*: data.seed"):
    prepare.prepare(c)
  assert f"MB in {FOLDER}\n" in prepare.report(loaded, FOLDER)


def test_replaced_with_force_and_copied_anew(
    bucket, prepared, there, tmp_path, monkeypatch
):
  old = manifest_lib.Manifest.load(FOLDER)
  (there / "mine.txt").write_text("not of the data set")
  c = in_bucket(bucket, prepared, sequence_length=20)
  c.tokenizer.kind, c.tokenizer.num_merges = "fastbpe", 20
  monkeypatch.setenv("CTRL_JAX_CACHE", str(tmp_path / "other"))
  new = prepare.prepare(c, force=True)
  assert new.hash != old.hash
  assert set(contents(there)) == {*new.files, "manifest.json", "mine.txt"}
  monkeypatch.setenv("CTRL_JAX_CACHE", str(tmp_path / "cache"))
  loaded = manifest_lib.Manifest.load(FOLDER)
  assert loaded.folder == old.folder and loaded.files == new.files
  assert contents(loaded.folder) == contents(new.folder)


def test_a_copy_is_used_again_unless_it_is_damaged(there, monkeypatch, caplog):
  copy = manifest_lib.Manifest.load(FOLDER).folder
  assert contents(copy) == contents(there)
  with monkeypatch.context() as m:
    forbid(m, buckets, "download")
    assert manifest_lib.Manifest.load(FOLDER + "/").folder == copy
  [shard] = copy.glob("*train.array_record*")
  shard.write_bytes(shard.read_bytes()[:-1])  # Cut.
  for _ in range(2):
    assert manifest_lib.Manifest.load(FOLDER).folder == copy
    assert contents(copy) == contents(there)
    shard.unlink()


def test_the_copy_of_a_run_that_ended_half_way(there, monkeypatch):
  copy = bucket_sets.cached(FOLDER)
  partial = copy.with_name(f".{copy.name}.partial")
  (partial / "tokenizer").mkdir(parents=True)  # Killed.
  with monkeypatch.context() as m:

    def terminated(path, target, digest):
      target.write_bytes(b"half")
      raise SystemExit(143)  # What SIGTERM does, see `hosts.session`.

    m.setattr(buckets, "download", terminated)
    with pytest.raises(SystemExit):
      manifest_lib.Manifest.load(FOLDER)
  assert [p.name for p in copy.parent.iterdir()] == [f"{copy.name}.lock"]
  assert contents(manifest_lib.Manifest.load(FOLDER).folder) == contents(there)


def test_what_is_damaged_in_the_bucket(bucket, prepared, there, monkeypatch):
  def load(message):
    with pytest.raises(errors.UserError, match=message):
      manifest_lib.Manifest.load(FOLDER)
    assert not bucket_sets.cached(FOLDER).exists()

  [shard] = there.glob("*train.array_record*")
  content = shard.read_bytes()
  shard.write_bytes(content[:-1])
  load(f"Damaged .*gs://.*train.* has {len(content) - 1} bytes")
  shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
  load("'gs://.*train.*' is not what was written")
  with pytest.raises(errors.UserError, match="is not what was written"):
    manifest_lib.Manifest.read(FOLDER).verify()
  shard.unlink()
  load("'gs://.*train.*' is missing")
  c = in_bucket(bucket, prepared)
  c.data.sources = prepared[0].data.sources
  with pytest.raises(errors.UserError, match="is missing"):
    prepare.prepare(c)
  with monkeypatch.context() as m:  # It vanishes in the meantime.
    m.setattr(manifest_lib.Manifest, "check_sizes", lambda self: None)
    load("Cannot read 'gs://.*train.*' .FileNotFoundError")
  file = there / "manifest.json"
  fields = json.loads(file.read_text())
  fields["files"]["../../victim"] = dict(bytes=1, sha256="")
  file.write_text(json.dumps(fields))
  load("'../../victim', outside of the data set")
  file.unlink()
  load(f"No prepared data set in '{FOLDER}'. Make it with")


def test_a_second_process_waits(there, prepared, monkeypatch):
  forbid(monkeypatch, buckets, "download")
  copy, found = bucket_sets.cached(FOLDER), []
  copy.parent.mkdir(parents=True)
  with filelock.FileLock(f"{copy}.lock"):
    thread = threading.Thread(
        target=lambda: found.append(manifest_lib.Manifest.load(FOLDER))
    )
    thread.start()
    thread.join(0.2)
    assert thread.is_alive() and not found
    shutil.copytree(there, copy)
  thread.join(10)
  assert found[0].folder == copy


def test_without_the_right_to_write_no_work_is_done(
    bucket, prepared, monkeypatch
):
  files = epath.Path(FOLDER)._backend.fs(FOLDER)
  opened = type(files)._open

  def refuse(self, path, mode="rb", **kwargs):
    if "r" not in mode:
      raise OSError("Forbidden: you lack storage.objects.create")
    return opened(self, path, mode, **kwargs)

  monkeypatch.setattr(type(files), "_open", refuse)
  forbid(monkeypatch, build, "build")
  with pytest.raises(errors.UserError, match="Cannot write .*Forbidden") as e:
    prepare.prepare(in_bucket(bucket, prepared))
  assert "\n" not in str(e.value)
  assert not bucket_sets.cached(FOLDER).exists()


def test_bad_input_leaves_what_was_there(bucket, prepared, there):
  before = contents(bucket)
  c = in_bucket(bucket, prepared, sequence_length=20)
  before |= {k: v for k, v in contents(bucket).items() if "inputs" in k}
  c.data.sources = (config.source("text", "Cats", path="gs://bucket/no/*.txt"),)
  for folder in (FOLDER, "gs://bucket/new"):
    c.data.folder = folder
    with pytest.raises(errors.UserError, match="No file 'gs://bucket/no/"):
      prepare.prepare(c, force=True)
  assert contents(bucket) == before


def test_half_of_a_data_set_is_none_and_is_replaced(
    bucket, prepared, monkeypatch
):
  there, upload = bucket / "data" / "set", buckets.upload
  c = in_bucket(bucket, prepared)
  with monkeypatch.context() as m:

    def breaks(source, path):
      if (there / "tokenizer").exists():
        raise errors.UserError("broken")
      upload(source, path)

    m.setattr(buckets, "upload", breaks)
    for _ in range(2):
      with pytest.raises(errors.UserError, match="broken What was made is"):
        prepare.prepare(c, force=True)
      copy = manifest_lib.Manifest.load(bucket_sets.cached(FOLDER))
      assert copy.hash == prepared[1].hash
      assert len(contents(there)) > 2 and data_set.MARK in contents(there)
      with pytest.raises(errors.UserError, match="No prepared data set"):
        manifest_lib.Manifest.load(FOLDER)
      shutil.rmtree(there)  # Next time in place of a whole one.
      shutil.copytree(prepared[1].folder, there)
  (there / "manifest.json").rename(there / data_set.MARK)
  (bucket / "victim").write_text("mine")
  (there / data_set.MARK).write_text(
      "\n".join([*prepared[1].files, "../../victim", str(bucket / "victim")])
  )
  c.tokenizer.kind, c.tokenizer.num_merges = "fastbpe", 20
  made = prepare.prepare(c)
  assert set(contents(there)) == {*made.files, "manifest.json"}
  assert (bucket / "victim").read_text() == "mine"
  (there / "manifest.json").write_text('{"sequence_length": 16')  # Damaged.
  with pytest.raises(errors.UserError, match="manifest.json' is damaged"):
    prepare.prepare(c)
  assert prepare.prepare(c, force=True).hash == made.hash


@pytest.mark.parametrize(
    "name", ["a.txt", "config.json", "manifest.json", "deep/a.txt", ""]
)
def test_nothing_else_is_replaced(bucket, prepared, there, name):
  if name == "config.json":  # A workdir, with a copy of the manifest.
    (there / name).write_text("{}")
  else:
    shutil.rmtree(there)
    file = there / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")
  before = contents(bucket / "data")
  c = in_bucket(bucket, prepared)
  with pytest.raises(errors.UserError, match="it is left alone. Choose"):
    prepare.prepare(c, force=True)
  assert contents(bucket / "data") == before


def test_who_else_reads_or_cannot(bucket, prepared, there, tmp_path):
  data = loading.find_data(tmp_path, FOLDER)
  assert data.hash == prepared[1].hash
  c = in_bucket(bucket, prepared)
  assert statistics.find_tokenizer(c).hash == data.tokenizer_hash
  c.data.folder = "gs://bucket/none"
  assert statistics.find_tokenizer(c) is None
  c.data.tfrecords = ("Books=gs://bucket/a.tfrecords",)
  c.tokenizer.path = str(data.tokenizer_folder)
  (bucket / "a.tfrecords").write_bytes(b"x")
  for folder, wrong in (
      (FOLDER, "set"), (str(tmp_path / "index"), "a.tfrecords")
  ):
    c.data.folder = folder
    with pytest.raises(errors.UserError, match=f"{wrong}': .* copy them here"):
      index_tfrecords.make(c)


def test_where_copies_lie(monkeypatch, tmp_path):
  monkeypatch.delenv("CTRL_JAX_CACHE", raising=False)
  monkeypatch.setenv("HOME", str(tmp_path))
  one, other = map(bucket_sets.cached, (FOLDER, "gs://other/data/set"))
  assert one.parent == other.parent == tmp_path / ".cache/ctrl_jax/data"
  assert one != other and one.name.startswith("set-")
  monkeypatch.setenv("CTRL_JAX_CACHE", "gs://bucket/cache")
  with pytest.raises(errors.UserError, match="must be a place on this mach"):
    bucket_sets.cached(FOLDER)
