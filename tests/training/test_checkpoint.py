import os
import sys
import time
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checkpoint_fakes import flip_a_bit, state

from ctrl_jax import errors
from ctrl_jax.training import checkpoint, checkpoint_manager


def test_damage_to_all_arrays_leaves_no_trace(tmp_path, monkeypatch):
  """What is read beside the first failure is waited for."""
  traces = []
  monkeypatch.setattr(sys, "unraisablehook", traces.append)
  checkpoints = checkpoint_manager.Checkpoints(tmp_path)
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


def test_folders_that_only_look_like_steps(saved):
  folder, _ = saved
  for name in ("\u00b2", "\uff19", "9x"):
    (folder / "checkpoints" / name).mkdir()
  assert checkpoint.saved_steps(folder) == [2, 3]
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
  checkpoints = checkpoint_manager.Checkpoints(tmp_path)
  checkpoints.save(1, half, 0.0)
  checkpoints.close()
  (leaf,) = checkpoint.StoredParams(tmp_path).parts(["w"], None)
  for w in (checkpoint.load_params(tmp_path)["w"], leaf):
    assert w.dtype == np.float32
    np.testing.assert_array_equal(w, np.arange(6.0))
