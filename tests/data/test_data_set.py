"""What is a data set, and what only looks like one."""

import shutil

import fake_bucket

from ctrl_jax.data import data_set


def test_a_data_set_whole_or_damaged(copied, tmp_path, monkeypatch):
  bucket = fake_bucket.make(tmp_path, monkeypatch)
  shutil.copytree(copied, bucket / "set")
  for folder in (copied, str(copied), "gs://bucket/set"):
    assert data_set.is_data_set(folder)
  (copied / "manifest.json").write_bytes(b'{"sequence_length": \xff')
  assert data_set.is_data_set(copied)


def test_what_is_none(copied, tmp_path, monkeypatch):
  bucket = fake_bucket.make(tmp_path, monkeypatch)
  shutil.copytree(copied, bucket / "run")
  for folder in (copied, bucket / "run"):  # Workdirs, with such a copy.
    (folder / "config.json").write_text("{}")
  (tmp_path / "app").mkdir()
  (tmp_path / "app" / "manifest.json").write_text('{"name": "an extension"}')
  for folder in (copied, "gs://bucket/run", tmp_path / "app", tmp_path / "no"):
    assert not data_set.is_data_set(folder)


def test_half_of_one_is_one_in_a_bucket_alone(tmp_path, monkeypatch):
  bucket = fake_bucket.make(tmp_path, monkeypatch)
  (bucket / data_set.MARK).write_text("a")
  assert data_set.is_data_set("gs://bucket")
  assert not data_set.is_data_set(bucket)
