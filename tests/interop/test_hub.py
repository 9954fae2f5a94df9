"""Names on the Hugging Face hub, with a cache as it leaves one, no network."""

import hashlib
import pathlib

import huggingface_hub.constants
import interop_fakes
import jax
import numpy as np
import pytest

import ctrl_jax
from ctrl_jax import errors
from ctrl_jax.interop import hub, hugging_face


@pytest.fixture
def cache(tmp_path, monkeypatch):
  """A cache with the model `someone/tiny`, offline."""
  monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
  monkeypatch.setattr(
      huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub")
  )
  monkeypatch.chdir(tmp_path)
  model = tmp_path / "hub" / "models--someone--tiny"
  commit = "0" * 40
  snapshot = model / "snapshots" / commit
  snapshot.mkdir(parents=True)
  (model / "refs").mkdir()
  (model / "refs" / "main").write_text(commit)
  params = interop_fakes.random_params(interop_fakes.CTRL)
  hugging_face.write(snapshot, interop_fakes.CTRL, params)
  return params


def test_a_name_is_fetched(cache):
  model = ctrl_jax.load("someone/tiny")
  jax.tree.map(np.testing.assert_array_equal, model.params, cache)


def blob(folder, content, name):
  """A file as the cache has it: a link to what is named by its hash."""
  blobs = folder / "blobs"
  blobs.mkdir(exist_ok=True)
  (blobs / name).write_bytes(content)
  link = folder / "snapshots" / f"file{len(name)}"
  link.parent.mkdir(exist_ok=True)
  link.symlink_to(f"../blobs/{name}")
  return link


@pytest.mark.parametrize(
    "name",
    [
        # sha256sum, and git hash-object, of "hello\n".
        "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        "ce013625030ba8dba906f756967f9e9ca394464a",
    ],
)
def test_hashes(tmp_path, name):
  hub._verify(blob(tmp_path, b"hello\n", name))
  (tmp_path / "blobs" / name).write_bytes(b"hellp\n")
  with pytest.raises(errors.UserError, match="not what the hub has: delete"):
    hub._verify(tmp_path / "snapshots" / f"file{len(name)}")


def test_a_damaged_cache(cache, tmp_path):
  file = next(tmp_path.glob("hub/*/snapshots/*/model.safetensors"))
  content = file.read_bytes()
  file.unlink()
  name = hashlib.sha256(content).hexdigest()
  blobs = file.parents[2] / "blobs"
  blobs.mkdir()
  (blobs / name).write_bytes(content)
  file.symlink_to(f"../../blobs/{name}")
  ctrl_jax.load("someone/tiny")
  (blobs / name).write_bytes(content[:-1] + b"x")
  with pytest.raises(errors.UserError, match=r"model\.safetensors'"):
    ctrl_jax.load("someone/tiny")


@pytest.mark.parametrize("name", ["someone/else", "gpt2"])
def test_what_cannot_be_fetched(cache, name):
  with pytest.raises(errors.UserError, match=f"'{name}' is no folder here"):
    ctrl_jax.load(name)


def test_names_and_places(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  pathlib.Path("runs/demo").mkdir(parents=True)
  for name in ("gpt2", "Salesforce/ctrl"):
    assert hub.is_name(name)
  for place in ("runs/demo", "runs/dmeo", "/gpt2", "./gpt2", "a/b/c", "~/x",
                "gs://a/b", ""):
    assert not hub.is_name(place)
