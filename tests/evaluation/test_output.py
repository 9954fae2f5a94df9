"""Result files appear complete or not at all."""

import json
import pathlib

import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import output


def test_writes_json(tmp_path):
  file = tmp_path / "a" / "b.json"
  output.write_json(file, {"é": 1.5})
  assert json.loads(file.read_text(encoding="utf-8")) == {"é": 1.5}


def test_failure_keeps_what_was_there(tmp_path):
  file = tmp_path / "b.json"
  file.write_text("old")
  with pytest.raises(ValueError):
    output.write_json(file, {"a": float("nan")})
  with pytest.raises(TypeError):
    output.write_bytes(file, "not bytes")
  assert file.read_text() == "old"
  assert [p.name for p in tmp_path.iterdir()] == ["b.json"]


@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_no_folder_called_as_a_bucket(tmp_path, monkeypatch, kind):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(errors.UserError, match="'gs://a/b.json' must be a place"):
    output.write_json(kind("gs://a/b.json"), {})
  assert not list(tmp_path.iterdir())
