"""Manifests: what was saved comes back, and damage names the file."""

import dataclasses
import json

import pytest

from ctrl_jax import errors
from ctrl_jax.data import manifest as manifest_lib


def test_saved_and_loaded_is_the_same(prepared, copied):
  manifest = dataclasses.replace(prepared[1], folder=copied)
  assert manifest_lib.Manifest.load(copied) == manifest
  (copied / "manifest.json").unlink()
  manifest.save()
  assert manifest_lib.Manifest.load(str(copied)) == manifest
  manifest.verify()
  assert manifest.codes == ("Books", "Reddit r/cats", "Questions")
  assert manifest.sources[0].ranges["train"][0] == 0
  assert manifest.size("test") == manifest.sources[-1].ranges["test"][1]


def test_truncated_files(copied):
  [shard] = copied.glob("*train.array_record*")
  shard.write_bytes(shard.read_bytes()[:-100])
  with pytest.raises(errors.UserError, match=f"{shard.name}.* were written"):
    manifest_lib.Manifest.load(copied)


def test_flipped_files(flipped):
  manifest = manifest_lib.Manifest.load(flipped.parent)
  with pytest.raises(errors.UserError, match=f"{flipped.name}.* not what was"):
    manifest.verify()


@pytest.mark.parametrize(
    "name", ["tokenizer/sentencepiece.model", "dataset_info.json"]
)
def test_small_files_of_the_same_size(copied, name):
  """A tokenizer with another letter would give other ids."""
  content = bytearray((copied / name).read_bytes())
  content[len(content) // 2] ^= 1
  (copied / name).write_bytes(content)
  with pytest.raises(errors.UserError, match=f"{name}.* not what was written"):
    manifest_lib.Manifest.load(copied)


def test_bad_manifests(prepared, copied, tmp_path):
  with pytest.raises(errors.UserError, match="No prepared data set .* Do so."):
    manifest_lib.Manifest.load(tmp_path, hint="Do so.")
  file = copied / "manifest.json"
  content = json.loads(file.read_text())
  file.write_text("{")
  with pytest.raises(errors.UserError, match="is damaged"):
    manifest_lib.Manifest.load(copied)
  file.write_text(json.dumps({**content, "version": 99}))
  with pytest.raises(errors.UserError, match="has version 99"):
    manifest_lib.Manifest.load(copied)
  file.write_text(json.dumps({**content, "more": 1}))
  with pytest.raises(errors.UserError, match="is damaged"):
    manifest_lib.Manifest.load(copied)
  file.write_text(json.dumps(content))
  assert manifest_lib.Manifest.load(copied).hash == prepared[1].hash
  (copied / "tokenizer" / "sentencepiece.model").unlink()
  with pytest.raises(errors.UserError, match="model' is missing"):
    manifest_lib.Manifest.load(copied)
