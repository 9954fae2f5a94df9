import json
import logging
import os
import resource
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checkpoint_fakes import abstract, flip_a_bit, largest_file, state
from etils import epath

from ctrl_jax import errors
from ctrl_jax.training import checkpoint, checkpoint_manager


def test_newest_comes_back_to_the_bit(saved):
  _, checkpoints = saved
  assert checkpoints.steps() == [2, 3]
  restored, meta = checkpoints.restore(abstract())
  jax.tree.map(np.testing.assert_array_equal, restored, state(3))
  assert (meta["step"], meta["seconds"]) == (3, 30.0)


def test_damage_is_found_and_the_one_before_taken(saved, caplog, monkeypatch):
  # A command in this process would have turned it off.
  monkeypatch.setattr(logging.getLogger("ctrl_jax"), "propagate", True)
  folder, checkpoints = saved
  flip_a_bit(folder / "checkpoints" / "3" / "state")
  with caplog.at_level(logging.ERROR, logger="ctrl_jax"):
    restored, meta = checkpoints.restore(abstract())
  assert meta["step"] == 2
  jax.tree.map(np.testing.assert_array_equal, restored, state(2))
  assert "Checkpoint 3 is unusable" in caplog.text
  flip_a_bit(folder / "checkpoints" / "2" / "state")
  with pytest.raises(errors.UserError, match="No usable checkpoint"):
    checkpoints.restore(abstract())


@pytest.mark.parametrize("damage", ["truncated", "not described"])
def test_other_damage_is_found_too(saved, damage):
  folder, checkpoints = saved
  state_folder = folder / "checkpoints" / "3" / "state"
  if damage == "truncated":
    os.truncate(largest_file(state_folder), 50)
  else:
    (state_folder / "_METADATA").write_text("")
  with pytest.raises(errors.UserError, match="3 is damaged.*training command"):
    checkpoint.load_params(folder)
  assert checkpoints.restore(abstract())[1]["step"] == 2


@pytest.mark.parametrize("meta", [
    dict(seconds="30"), dict(seconds=None), dict(seconds=-1.0),
    dict(productive="x"),
])
def test_times_that_are_none(saved, meta):
  folder, checkpoints = saved
  file = folder / "checkpoints" / "3" / "meta" / "metadata"
  file.write_text(json.dumps(json.loads(file.read_text()) | meta))
  assert checkpoints.restore(abstract())[1]["step"] == 2


def test_times_of_an_earlier_version(saved):
  folder, checkpoints = saved
  file = folder / "checkpoints" / "3" / "meta" / "metadata"
  content = json.loads(file.read_text())
  del content["productive"]
  file.write_text(json.dumps(content))
  restored = checkpoints.restore(abstract())[1]
  assert (restored["step"], restored["productive"]) == (3, 0.0)
  del content["seconds"]
  file.write_text(json.dumps(content))
  assert checkpoints.restore(abstract())[1]["step"] == 2


def test_a_damaged_step_is_written_again(saved):
  folder, checkpoints = saved
  flip_a_bit(folder / "checkpoints" / "3" / "state")
  checkpoints.restore(abstract())
  checkpoints.save(3, state(3), 30.0)
  checkpoints.wait()
  assert checkpoints.steps() == [2, 3]
  params = checkpoint.load_params(folder)
  jax.tree.map(np.testing.assert_array_equal, params, state(3)["params"])
  assert (folder / "checkpoints" / "3.damaged").exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_is_one_line(saved):
  folder, checkpoints = saved
  old = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (4000, old[1]))
  try:
    with pytest.raises(errors.UserError, match="Cannot write a checkpoint in"):
      checkpoints.save(4, state(4), 40.0)
      checkpoints.wait()
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, old)
  left = sorted(p.name for p in (folder / "checkpoints").iterdir())
  assert left == ["2", "3"]
  assert checkpoint.load_params(folder)


@pytest.mark.parametrize("e", [
    OSError("timed out"), ValueError("UNAVAILABLE: 503"), LookupError("503"),
])
def test_a_bucket_that_cannot_be_written_may_be_at_the_next_start(saved, e):
  """None of them is a mistake: unattended, exit code 2 is the run's end."""
  def fail():
    raise e

  _, checkpoints = saved
  bucket = object.__new__(checkpoint_manager.Checkpoints)
  bucket._folder = epath.Path("gs://bucket/r/checkpoints")
  bucket._manager = types.SimpleNamespace(wait_until_finished=fail)
  with pytest.raises(errors.Passing, match="503|timed out. Run the same"):
    bucket.wait()
  if isinstance(e, LookupError):  # A bug, on a disk.
    bucket._folder = checkpoints._folder
    with pytest.raises(LookupError):
      bucket.wait()


def test_what_cannot_be_read_now_is_not_set_aside(saved, monkeypatch):
  folder, checkpoints = saved
  real = checkpoint.read_state

  def read(path, abstract):
    if path.name == "3":
      raise ValueError("UNAVAILABLE: Error reading 3")
    return real(path, abstract)

  monkeypatch.setattr(checkpoint, "read_state", read)
  with pytest.raises(errors.Passing, match="3 now: UNAVAILABLE: Error reading"):
    checkpoints.restore(abstract())
  assert (folder / "checkpoints" / "3").exists()
  monkeypatch.undo()
  assert checkpoints.restore(abstract())[1]["step"] == 3


class OnTpu:
  def devices(self):
    return [types.SimpleNamespace(platform="tpu")]


def test_only_on_cpu_a_second_copy_is_made():
  x = OnTpu()
  assert checkpoint_manager._keep(x) is x
  x = jnp.arange(3)
  kept = checkpoint_manager._keep(x)
  assert kept.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()


def test_no_checkpoint(tmp_path):
  for read in (checkpoint.load_params, checkpoint.StoredParams):
    with pytest.raises(errors.UserError, match="No checkpoint"):
      read(tmp_path)
  checkpoints = checkpoint_manager.Checkpoints(tmp_path)
  with pytest.raises(errors.UserError, match="No checkpoint"):
    checkpoints.restore(abstract())
  checkpoints.close()


def test_half_written_folder_is_no_checkpoint_and_goes_away(tmp_path):
  partial = tmp_path / "checkpoints" / "5.orbax-checkpoint-tmp"
  partial.mkdir(parents=True)
  (partial / "junk").write_text("x")
  checkpoints = checkpoint_manager.Checkpoints(tmp_path)
  assert checkpoints.steps() == []
  checkpoints.save(6, state(6), 0.0)
  checkpoints.wait()
  assert checkpoints.steps() == [6]
  checkpoints.close()
  assert not os.path.exists(partial)
