import copy
import json
import unittest.mock

import fake_bucket
import pytest
import tensorboardX
from etils.epath import backend

from ctrl_jax import errors
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.training import metrics, workdir


@pytest.fixture
def manifest(tiny_config):
  return Manifest.load(tiny_config.data.folder)


def changed(config, **fields):
  copy = config.copy_and_resolve_references()
  with copy.unlocked():
    for name, value in fields.items():
      section, field = name.split("__")
      copy[section][field] = value
  return copy


def test_holds_all_that_says_which_run_it_is(tmp_path, tiny_config, manifest):
  folder = workdir.open_workdir(tmp_path / "run", tiny_config, manifest)
  stored = json.loads((folder / "config.json").read_text())
  assert stored["model"]["d_model"] == 16
  assert stored["data_hash"] == manifest.hash
  assert stored["vocab_size"] == 150
  assert stored["code_version"]
  assert (folder / "tokenizer" / "sentencepiece.model").exists()
  assert Manifest.read(folder).hash == manifest.hash
  workdir.open_workdir(folder, tiny_config, manifest)  # Again: the same run.


def test_what_it_begins_with_needs_no_variable_later(
    tiny_config, manifest, monkeypatch
):
  monkeypatch.setenv("MY_MODEL", "runs/one")
  config = copy.deepcopy(tiny_config)
  config.train.init_from = "$MY_MODEL"
  stored = workdir.describe(config, manifest)
  assert stored["train"]["init_from"] == "runs/one"


def test_in_a_bucket(tmp_path, tiny_config, manifest, monkeypatch):
  bucket = fake_bucket.make(tmp_path, monkeypatch)
  # TensorBoard's goes there by itself, with google-cloud-storage.
  monkeypatch.setattr(
      tensorboardX, "SummaryWriter", unittest.mock.create_autospec(
          tensorboardX.SummaryWriter
      ),
  )
  for _ in range(2):
    folder = workdir.open_workdir("gs://bucket/run", tiny_config, manifest)
    writer = metrics.MetricWriter(folder)
    writer.write(1, {"loss": 2.0})
    writer.close()
  assert str(folder) == "gs://bucket/run"
  run = bucket / "run"
  assert json.loads((run / "config.json").read_text())["data_hash"]
  assert (run / "tokenizer" / "sentencepiece.model").exists()
  assert (run / "metrics.jsonl").read_text().count("\n") == 2
  assert not [path for path in run.rglob("*") if ".partial" in path.name]
  with pytest.raises(errors.UserError, match="model.d_ff was 32, is 64"):
    workdir.open_workdir(
        "gs://bucket/run", changed(tiny_config, model__d_ff=64), manifest
    )


def test_a_bucket_that_cannot_be_reached(monkeypatch):
  def fail(self, path):
    raise ImportError("no gcsfs")

  monkeypatch.setattr(type(backend.fsspec_backend), "fs", fail)
  with pytest.raises(errors.UserError, match="no gcsfs.*pip install gcsfs"):
    workdir.check_reachable("gs://bucket/run")
  with pytest.raises(errors.UserError, match="is an address"):
    workdir.check_reachable("https://bucket/run")
  workdir.check_reachable("runs/none/yet")


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"model__d_ff": 64}, "model.d_ff was 32, is 64"),
        (
            {"optimizer__name": "adam"},
            "optimizer.name was 'adagrad', is 'adam'",
        ),
        ({"train__seed": 3}, "train.seed was 0, is 3"),
    ],
)
def test_another_run_is_refused_with_the_difference(
    tmp_path, tiny_config, manifest, fields, says
):
  workdir.open_workdir(tmp_path / "run", tiny_config, manifest)
  with pytest.raises(errors.UserError) as e:
    workdir.open_workdir(
        tmp_path / "run", changed(tiny_config, **fields), manifest
    )
  assert says in str(e.value)


def test_another_data_set_is_refused(tmp_path, tiny_config, manifest):
  import dataclasses

  workdir.open_workdir(tmp_path / "run", tiny_config, manifest)
  other = dataclasses.replace(manifest, hash="f00")
  with pytest.raises(errors.UserError, match="data_hash was"):
    workdir.open_workdir(tmp_path / "run", tiny_config, other)


def test_more_steps_or_another_remat_is_the_same_run(
    tmp_path, tiny_config, manifest
):
  workdir.open_workdir(tmp_path / "run", tiny_config, manifest)
  other = changed(tiny_config, train__steps=99, model__remat="full")
  workdir.open_workdir(tmp_path / "run", other, manifest)


def test_a_begun_workdir_is_taken_up(tmp_path, tiny_config, manifest):
  """What a run killed at its very start leaves."""
  folder = workdir.open_workdir(tmp_path / "run", tiny_config, manifest)
  (folder / "config.json").unlink()
  workdir.open_workdir(folder, tiny_config, manifest)
  assert (folder / "config.json").exists()


def test_nothing_half_written_stays(
    tmp_path, tiny_config, manifest, monkeypatch
):
  def full(file, text):
    raise OSError(28, "No space left on device", str(file))

  with monkeypatch.context() as m, pytest.raises(OSError):
    m.setattr(workdir, "write_file", full)
    workdir.open_workdir(tmp_path / "run", tiny_config, manifest)
  assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"train": 3}'])
def test_damaged_config(tmp_path, tiny_config, manifest, content):
  folder = workdir.open_workdir(tmp_path / "run", tiny_config, manifest)
  (folder / "config.json").write_text(content)
  with pytest.raises(errors.UserError, match="config.json is damaged"):
    workdir.open_workdir(folder, tiny_config, manifest)


def test_variable_that_is_not_set(tiny_config, manifest, monkeypatch):
  monkeypatch.delenv("RUNS", raising=False)
  with pytest.raises(errors.UserError, match="export RUNS="):
    workdir.open_workdir("$RUNS/a", tiny_config, manifest)


def test_foreign_folder_is_left_alone(tmp_path, tiny_config, manifest):
  (tmp_path / "thesis.txt").write_text("mine")
  for path in (tmp_path, f"{tmp_path}/missing/.."):
    with pytest.raises(errors.UserError, match="neither empty nor a train"):
      workdir.open_workdir(path, tiny_config, manifest)
  assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_fields_that_are_younger_than_the_run(tmp_path, tiny_config, manifest):
  """A run of an earlier version goes on where the new field is its default."""
  folder = workdir.open_workdir(tmp_path / "run", tiny_config, manifest)
  file = folder / "config.json"
  stored = json.loads(file.read_text())
  del stored["model"]["positions"]
  file.write_text(json.dumps(stored))
  workdir.open_workdir(folder, tiny_config, manifest)
  other = changed(tiny_config, model__positions="learned")
  with pytest.raises(errors.UserError, match="positions was 'sinusoidal'"):
    workdir.open_workdir(folder, other, manifest)


class Process1:
  """What process 1 of two sees of process 0, whose word is "abc"."""

  current = is_main = staticmethod(lambda: None)

  def __init__(self):
    self.places = []

  def exchange(self, where, text=""):
    assert not text
    self.places.append(where)
    return {0: "abc"}


def test_another_process_makes_nothing_and_checks(
    tmp_path, tiny_config, manifest, monkeypatch
):
  folder = workdir.open_workdir(tmp_path / "run", tiny_config, manifest)
  one = Process1()
  monkeypatch.setattr(workdir, "session", one)
  monkeypatch.setattr(one, "current", lambda: one)
  (folder / "shared").write_text("abc")
  workdir.open_workdir(folder, tiny_config, manifest)
  assert one.places == ["the workdir", "the check of the workdir"]
  with pytest.raises(errors.UserError, match="model.d_ff was 32, is 64"):
    workdir.open_workdir(
        folder, changed(tiny_config, model__d_ff=64), manifest
    )
  # A disk of its own, without the run; or with an earlier one.
  (folder / "shared").write_text("xyz")
  for path in (folder, tmp_path / "none"):
    with pytest.raises(errors.UserError, match="bucket, or on a disk they sh"):
      workdir.open_workdir(path, tiny_config, manifest)
  assert not (tmp_path / "none").exists()
