import json
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
from ctrl_jax.interop import assemble
from ctrl_jax.training import checkpoint, checkpoint_manager, weights


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


def test_parameters_in_two_halves_are_joined_to_the_bit(tmp_path, monkeypatch):
  monkeypatch.setattr(checkpoint, "_BLOCK", 40)  # Of 24 rows, 10 together.
  keys = jax.random.split(jax.random.key(0))
  params = {
      "layers": {"up": {
          "kernel": jax.random.normal(keys[0], (3, 8, 4)),
          "bias": jnp.full((3, 4), 0.1),
      }},
      "embedding": {"table": jax.random.normal(keys[1], (24, 4))},
  }
  high, low = weights.split(params)
  assert high["embedding"]["table"].dtype == jnp.bfloat16
  checkpoints = checkpoint_manager.Checkpoints(tmp_path)
  checkpoints.save(1, dict(params=high, low_bits=low), 0.0)
  checkpoints.close()
  jax.tree.map(
      np.testing.assert_array_equal, checkpoint.load_params(tmp_path), params
  )
  stored = checkpoint.StoredParams(tmp_path)
  assert set(stored.shapes) == {
      "layers/up/kernel", "layers/up/bias", "embedding/table"
  }
  wanted = assemble.flat(params)
  for path, x in wanted.items():
    (found,) = stored.parts([path], None)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, x)
  for layer in range(3):
    pair = ["layers/up/kernel", "layers/up/bias"]
    for path, found in zip(pair, stored.parts(pair, layer), strict=True):
      assert found.dtype == np.float32
      np.testing.assert_array_equal(found, wanted[path][layer])
  (whole,) = stored.parts(["embedding/table"], None)
  assert stored.parts(["embedding/table"], None)[0] is whole  # Joined once.


def test_damage_to_the_second_halves_is_found(tmp_path, monkeypatch):
  x = jax.random.normal(jax.random.key(0), (8, 4))
  high, low = weights.split({"kernel": x})
  checkpoints = checkpoint_manager.Checkpoints(tmp_path)
  checkpoints.save(1, dict(params=high, low_bits=low), 0.0)
  checkpoints.close()
  meta = tmp_path / "checkpoints" / "1" / "meta" / "metadata"
  content = json.loads(meta.read_text())
  content["checksums"]["['low_bits']['kernel']"] ^= 1
  meta.write_text(json.dumps(content))
  with pytest.raises(errors.UserError, match=r"differs for \['low_bits'\]"):
    checkpoint.load_params(tmp_path)
  stored = checkpoint.StoredParams(tmp_path)
  with pytest.raises(errors.UserError, match="differs for low_bits/kernel"):
    stored.parts(["kernel"], None)

