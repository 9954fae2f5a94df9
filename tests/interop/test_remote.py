"""Models in a bucket; a folder here stands in for the bucket."""

import pathlib

import evaluation_fakes as fakes
import fake_bucket
import jax
import numpy as np
import pytest
import shared_data
from etils.epath import backend

import ctrl_jax
from ctrl_jax import convert, errors, saved_model
from ctrl_jax.interop import remote


@pytest.fixture
def bucket(tmp_path, monkeypatch):
  """The folder that `gs://bucket` names."""
  return fake_bucket.make(tmp_path, monkeypatch)


def names(folder):
  return sorted(
      p.relative_to(folder).as_posix() for p in pathlib.Path(folder).rglob("*")
      if p.is_file()
  )


def test_an_exported_folder(bucket, tmp_path):
  fakes.write_export(bucket / "export", codes=list(fakes.CODES))
  (bucket / "export" / "pytorch_model.bin").write_bytes(b"not wanted")
  model = ctrl_jax.load("gs://bucket/export")
  jax.tree.map(np.testing.assert_array_equal, model.params, fakes.params())
  assert model.score("cat purr", "Cats")[0].num_tokens > 0
  found = names(remote.fetch("gs://bucket/export"))
  assert "model.safetensors" in found and "pytorch_model.bin" not in found
  folder = convert.convert("gs://bucket/export", tmp_path / "converted")
  again = ctrl_jax.load(folder)
  jax.tree.map(np.testing.assert_array_equal, again.params, model.params)


def test_a_workdir_with_its_newest_checkpoint_alone(bucket):
  fakes.write_workdir(bucket / "run", None)
  old = bucket / "run" / "checkpoints" / "2"
  old.mkdir()
  (old / "x").write_text("old")
  (bucket / "run" / "metrics.jsonl").write_text("{}")
  found = names(remote.fetch("gs://bucket/run"))
  assert "checkpoints/2/x" not in found and "metrics.jsonl" not in found
  model = ctrl_jax.load("gs://bucket/run/")
  jax.tree.map(np.testing.assert_array_equal, model.params, fakes.params())
  assert model.codes == fakes.CODES


def test_a_tensorflow_checkpoint_by_folder_and_by_prefix(bucket):
  source = shared_data.path("expected/tf_checkpoint")
  (bucket / "tf").mkdir()
  for file in source.iterdir():
    (bucket / "tf" / file.name).write_bytes(file.read_bytes())
  (index,) = source.glob("*.index")
  expected = saved_model.read(source, num_heads=4).params
  for path in ("gs://bucket/tf", f"gs://bucket/tf/{index.stem}"):
    found = saved_model.read(path, num_heads=4).params
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_sizes_need_no_weights(bucket, monkeypatch):
  fakes.write_export(bucket / "export")
  fetched, copy = [], remote._copy

  def watched(found, local):
    fetched.extend(found)
    copy(found, local)

  monkeypatch.setattr(remote, "_copy", watched)
  assert saved_model.read_config("gs://bucket/export").d_model == 16
  assert [name for _, name in fetched] == ["config.json"]


def test_what_is_not_there(bucket):
  for path in ("gs://bucket/none", "gs://bucket/none/deeper"):
    with pytest.raises(errors.UserError, match="bucket/none"):
      ctrl_jax.load(path)
  (bucket / "empty").mkdir()
  with pytest.raises(errors.UserError, match="no model in 'gs://bucket/empty'"):
    ctrl_jax.load("gs://bucket/empty")


def test_a_bucket_that_cannot_be_read(monkeypatch):
  def fail(self, path):
    raise ImportError("no gcsfs")

  monkeypatch.setattr(type(backend.fsspec_backend), "fs", fail)
  with pytest.raises(errors.UserError, match="no gcsfs.*pip install gcsfs"):
    ctrl_jax.load("gs://bucket/run")


@pytest.mark.parametrize("kind", ["http", "https", "file"])
def test_addresses_of_web_pages(kind):
  with pytest.raises(errors.UserError, match="is an address, not a path"):
    ctrl_jax.load(f"{kind}://huggingface.co/gpt2")
