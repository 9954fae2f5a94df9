"""What a path stands for; loading itself is tested with each kind of model."""

import json

import pytest

import ctrl_jax
from ctrl_jax import errors, loading


def test_a_plain_path_is_a_model(tmp_path):
  assert loading.find(tmp_path) == loading.Found(tmp_path, None, {}, None)


def test_heads_beside_an_export_and_given_ones(tmp_path):
  for name in ("b", "a"):
    (tmp_path / "heads" / name).mkdir(parents=True)
  found = loading.find(tmp_path, {"mine": "runs/x"})
  assert found.heads == {
      "a": tmp_path / "heads" / "a", "b": tmp_path / "heads" / "b",
      "mine": "runs/x",
  }
  # A given one counts in place of one of the same name.
  assert loading.find(tmp_path, {"a": "runs/a"}).heads["a"] == "runs/a"


@pytest.mark.parametrize("path", ["none/here", "/none/here", "~/none/here"])
def test_nothing_there(path):
  with pytest.raises(errors.UserError, match="none/here"):
    ctrl_jax.load(path)


@pytest.mark.parametrize("data", [3, "x", None, {}, {"folder": 3}])
def test_a_workdir_that_names_no_data_set(tmp_path, data):
  (tmp_path / "config.json").write_text(json.dumps(dict(data=data)))
  with pytest.raises(errors.UserError, match="does not say which data set"):
    loading.find_data(tmp_path, "")


def test_a_head_that_is_not_there(tmp_path):
  with pytest.raises(errors.UserError, match="nowhere"):
    loading.read_head(tmp_path / "nowhere")
