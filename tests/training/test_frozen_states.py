"""A frozen model's states on disk: the same training, without running it."""

import json

import auxiliary_runs
import jax
import ml_dtypes
import numpy as np
import pytest

from ctrl_jax import errors, prepare, train
from ctrl_jax.data import records
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.tasks import make as tasks
from ctrl_jax.training import checkpoint, frozen_states


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  return auxiliary_runs.make(tmp_path_factory.mktemp("frozen_states"))


def planned(runs, folder, **changes):
  """The states of the runs' data, counted instead of computed, and it."""
  manifest = prepare.prepare(runs["config"])
  task = tasks.make(runs["config"], manifest.vocab_size)
  fields = dict(task=task, manifest=manifest, base_hash="b") | changes
  return frozen_states.plan(str(folder), **fields), manifest


def counting(states):
  """A `compute` that repeats the ids in all places, and what it was given."""
  seen = []

  def compute(ids):
    seen.append(ids)
    wide = np.broadcast_to(ids[..., None], (*ids.shape, states.shape[-1]))
    return {
        name: wide + 1000 * k for k, name in enumerate(sorted(states.names))
    }

  return compute, seen


def test_the_same_training(runs, tmp_path):
  c = runs["config"].copy_and_resolve_references()
  c.train.frozen_states = str(tmp_path / "states")
  result = train.train(c, str(tmp_path / "run"))
  losses = []
  for workdir in (runs["workdir"], tmp_path / "run"):
    lines = [json.loads(line) for line in open(f"{workdir}/metrics.jsonl")]
    losses.append([x["train/loss"] for x in lines if "train/loss" in x])
  assert len(losses[0]) == 6
  np.testing.assert_allclose(*losses, rtol=1e-5)
  params = [
      checkpoint.load_params(w) for w in (runs["workdir"], tmp_path / "run")
  ]
  jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), *params
  )
  assert result["step"] == 6


def test_places_are_the_records(runs, tmp_path):
  states, manifest = planned(runs, tmp_path / "s")
  compute, seen = counting(states)
  states.make(compute, manifest, batch_size=7, show=False)
  assert {ids.shape for ids in seen} == {(7, 24)}
  data = records.open_split(manifest.folder, "train")
  assert states.names == ("base_depth_1", "base_hidden")
  for i in (0, 6, 7, len(data) - 1):
    ids = data[i]["tokens"][:-1, None]
    found = states[i]
    assert (found["base_depth_1"] == ids).all()
    assert (found["base_hidden"] == ids + 1000).all()


def test_goes_on_where_it_was(runs, tmp_path, monkeypatch):
  monkeypatch.setattr(frozen_states, "_BLOCK", 16)
  states, manifest = planned(runs, tmp_path / "s")
  compute, seen = counting(states)

  def stops(ids):
    if len(seen) == 5:
      raise errors.Preempted
    return compute(ids)

  with pytest.raises(errors.Preempted):
    states.make(stops, manifest, batch_size=8, show=False)
  meta = tmp_path / "s" / "states.json"
  assert json.loads(meta.read_text())["done"] == 32
  states.make(compute, manifest, batch_size=8, show=False)
  data = records.open_split(manifest.folder, "train")
  for i in range(len(data)):
    assert (states[i]["base_depth_1"] == data[i]["tokens"][:-1, None]).all()
  count = len(seen)
  states.make(compute, manifest, batch_size=8, show=False)
  assert len(seen) == count


def test_numbers_are_the_models(runs, tmp_path):
  c = runs["config"].copy_and_resolve_references()
  c.model.dtype = "bfloat16"
  manifest = prepare.prepare(c)
  task = tasks.make(c, manifest.vocab_size)
  states, _ = planned(runs, tmp_path / "s", task=task)
  assert states.dtype == ml_dtypes.bfloat16
  compute, _ = counting(states)
  states.make(compute, manifest, batch_size=8, show=False)
  size = (tmp_path / "s" / "states.bin").stat().st_size
  assert size == manifest.size("train") * 2 * 24 * 16 * 2
  assert states[0]["base_hidden"].dtype == ml_dtypes.bfloat16


def test_flops_without_the_model(runs):
  c = runs["config"].copy_and_resolve_references()
  whole = tasks.make(c, 120).flops_per_token(24)
  c.train.frozen_states = "s"
  less = tasks.make(c, 120).flops_per_token(24)
  # Two blocks' matrices, 2 D (4 D + 2 F), and a causal context of 12 tokens.
  assert whole - less == 2 * (2 * 16 * (4 * 16 + 2 * 32) + 2 * 24 * 16)


def test_states_of_another_model_or_data(runs, tmp_path):
  states, manifest = planned(runs, tmp_path / "s")
  states.make(counting(states)[0], manifest, 8, show=False)
  before = (tmp_path / "s" / "states.bin").read_bytes()
  other, _ = planned(runs, tmp_path / "s", base_hash="c")
  with pytest.raises(errors.UserError, match="another model, data set"):
    other.make(counting(other)[0], manifest, 8, show=False)
  assert (tmp_path / "s" / "states.bin").read_bytes() == before


def test_damage(runs, tmp_path):
  states, manifest = planned(runs, tmp_path / "s")
  make = lambda: states.make(counting(states)[0], manifest, 8, show=False)
  make()
  meta, numbers = (tmp_path / "s" / f"states.{x}" for x in ("json", "bin"))
  good = meta.read_text()
  for text in ("", "[]", "{}", good.replace('"done": ', '"done": 1')):
    meta.write_text(text)
    with pytest.raises(errors.UserError, match="damaged: delete its folder"):
      make()
  meta.write_text(good)
  numbers.write_bytes(numbers.read_bytes()[:-1])
  with pytest.raises(errors.UserError, match=r"states\.bin is damaged"):
    make()


def test_a_folder_of_something_else(runs, tmp_path):
  (tmp_path / "mine.txt").write_text("x")
  states, manifest = planned(runs, tmp_path)
  with pytest.raises(errors.UserError, match="of something else"):
    states.make(counting(states)[0], manifest, 8, show=False)
  assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_a_disk_too_small(runs, tmp_path, monkeypatch):
  usage = type("Usage", (), dict(free=10))
  monkeypatch.setattr(frozen_states.shutil, "disk_usage", lambda _: usage)
  states, manifest = planned(runs, tmp_path / "s")
  with pytest.raises(errors.UserError, match="0.0 GB are free"):
    states.make(counting(states)[0], manifest, 8, show=False)
  assert not (tmp_path / "s").exists()


def test_states_that_are_not_finite(runs, tmp_path):
  states, manifest = planned(runs, tmp_path / "s")
  compute = lambda ids: {
      name: np.full((*ids.shape, 16), np.inf) for name in states.names
  }
  with pytest.raises(errors.UserError, match="not finite on training records"):
    states.make(compute, manifest, 8, show=False)


def test_a_task_that_reads_more(runs):
  manifest = Manifest.load(runs["config"].data.folder)
  assert frozen_states.plan("", object(), manifest, "") is None
  with pytest.raises(errors.UserError, match="auxiliary_tuning"):
    frozen_states.plan("s", object(), manifest, "")
