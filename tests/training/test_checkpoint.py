import json
import logging
import os
import pathlib
import resource
import sys
import time
import types
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.training import checkpoint


def state(step):
  x = jax.random.normal(jax.random.key(step), (64, 32))
  return {
      "params": {"w": x, "b": x[0]}, "opt_state": (x**2,),
      "step": jnp.int32(step),
  }


def abstract():
  sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
  return jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
      state(0),
  )


@pytest.fixture
def saved(tmp_path):
  """A workdir with checkpoints of steps 1, 2 and 3, of which 2 are kept."""
  checkpoints = checkpoint.Checkpoints(tmp_path, keep=2)
  for step in (1, 2, 3):
    checkpoints.save(step, state(step), 10.0 * step)
  checkpoints.wait()
  yield tmp_path, checkpoints
  checkpoints.close()


def largest_file(folder: pathlib.Path) -> pathlib.Path:
  files = [p for p in folder.rglob("*") if p.is_file()]
  return max(files, key=lambda p: p.stat().st_size)


def flip_a_bit(folder: pathlib.Path, parts: int = 2):
  """Between each of `parts` parts of the largest file, where the data lie."""
  file = largest_file(folder)
  raw = bytearray(file.read_bytes())
  for i in range(1, parts):
    raw[i * len(raw) // parts] ^= 8
  file.write_bytes(bytes(raw))


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


def test_damage_to_all_arrays_leaves_no_trace(tmp_path, monkeypatch):
  """What is read beside the first failure is waited for."""
  traces = []
  monkeypatch.setattr(sys, "unraisablehook", traces.append)
  checkpoints = checkpoint.Checkpoints(tmp_path)
  x = {"params": {f"w{i}": jnp.arange(8.0) for i in range(40)}}
  checkpoints.save(1, x, 1.0)
  checkpoints.wait()
  for file in tmp_path.rglob("manifest.ocdbt"):
    os.truncate(file, 20)
  for _ in range(9):  # Which of them comes too late is a matter of luck.
    with pytest.raises(errors.UserError, match="1 is damaged"):
      checkpoint.load_params(tmp_path)
  checkpoints.close()
  time.sleep(0.2)
  assert not traces


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


def test_folders_that_only_look_like_steps(saved):
  folder, _ = saved
  for name in ("\u00b2", "\uff19", "9x"):
    (folder / "checkpoints" / name).mkdir()
  assert checkpoint.saved_steps(folder) == [2, 3]
  assert checkpoint.load_params(folder)


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


def test_parameters_alone(saved):
  folder, _ = saved
  params = checkpoint.load_params(folder)
  jax.tree.map(np.testing.assert_array_equal, params, state(3)["params"])
  params = checkpoint.load_params(folder, step=2)
  jax.tree.map(np.testing.assert_array_equal, params, state(2)["params"])
  with pytest.raises(errors.UserError, match="there are: \\[2, 3\\]"):
    checkpoint.load_params(folder, step=7)
  # Which array lies in the middle differs from run to run: hit them all.
  flip_a_bit(folder / "checkpoints" / "3" / "state", parts=8)
  with pytest.raises(errors.UserError, match="is damaged"):
    checkpoint.load_params(folder)


def test_parameters_leaf_by_leaf(saved):
  folder, _ = saved
  expected = state(3)["params"]
  stored = checkpoint.StoredParams(folder)
  assert stored.shapes == {"w": (64, 32), "b": (32,)}
  w, b = stored.parts(("w", "b"), None)
  np.testing.assert_array_equal(w, expected["w"])
  np.testing.assert_array_equal(b, expected["b"])
  (row,) = stored.parts(("w",), 5)
  np.testing.assert_array_equal(row, expected["w"][5])
  # The leaves before are let go of.
  held = weakref.ref(stored.parts(("w",), None)[0])
  del w, b, row
  assert held() is not None
  stored.parts(("b",), None)
  assert held() is None
  stored = checkpoint.StoredParams(folder, step=2)
  flip_a_bit(folder / "checkpoints" / "2" / "state", parts=8)
  with pytest.raises(errors.UserError, match="2 is damaged"):
    for path in stored.shapes:
      stored.parts((path,), None)


def test_parameters_in_bfloat16_are_read_as_float32(tmp_path):
  half = {"params": {"w": jnp.arange(6.0).astype(jnp.bfloat16)}}
  checkpoints = checkpoint.Checkpoints(tmp_path)
  checkpoints.save(1, half, 0.0)
  checkpoints.close()
  (leaf,) = checkpoint.StoredParams(tmp_path).parts(["w"], None)
  for w in (checkpoint.load_params(tmp_path)["w"], leaf):
    assert w.dtype == np.float32
    np.testing.assert_array_equal(w, np.arange(6.0))


class OnTpu:
  def devices(self):
    return [types.SimpleNamespace(platform="tpu")]


def test_only_on_cpu_a_second_copy_is_made():
  x = OnTpu()
  assert checkpoint._keep(x) is x
  x = jnp.arange(3)
  kept = checkpoint._keep(x)
  assert kept.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()


def test_no_checkpoint(tmp_path):
  for read in (checkpoint.load_params, checkpoint.StoredParams):
    with pytest.raises(errors.UserError, match="No checkpoint"):
      read(tmp_path)
  checkpoints = checkpoint.Checkpoints(tmp_path)
  with pytest.raises(errors.UserError, match="No checkpoint"):
    checkpoints.restore(abstract())
  checkpoints.close()


def test_half_written_folder_is_no_checkpoint_and_goes_away(tmp_path):
  partial = tmp_path / "checkpoints" / "5.orbax-checkpoint-tmp"
  partial.mkdir(parents=True)
  (partial / "junk").write_text("x")
  checkpoints = checkpoint.Checkpoints(tmp_path)
  assert checkpoints.steps() == []
  checkpoints.save(6, state(6), 0.0)
  checkpoints.wait()
  assert checkpoints.steps() == [6]
  checkpoints.close()
  assert not os.path.exists(partial)
