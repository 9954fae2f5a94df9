"""Safetensors in one file or several, written tensor by tensor."""

import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from ctrl_jax import errors
from ctrl_jax.interop import safetensors_folder

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.float32([1.5]),
    "c": np.full((4, 5), 0.25, np.float32),
}


def write(folder, arrays=ARRAYS, **kwargs):
  safetensors_folder.write(
      folder, {k: x.shape for k, x in arrays.items()}, arrays.__getitem__,
      **kwargs,
  )


@pytest.mark.parametrize("dtype", list(safetensors_folder.DTYPES))
@pytest.mark.parametrize("shard_bytes", [None, 1, 30, 10**9])
def test_round_trip(tmp_path, dtype, shard_bytes):
  write(tmp_path, dtype=dtype, shard_bytes=shard_bytes)
  reader = safetensors_folder.Reader(tmp_path)
  assert sorted(reader.names) == ["a", "b", "c"]
  for name, x in ARRAYS.items():
    assert reader.shape(name) == list(x.shape)
    found = reader.get(name)
    assert found.dtype == np.dtype(
        ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    )
    np.testing.assert_array_equal(found.astype(np.float32), x)
  num_files = {1: 3, 30: 2}.get(shard_bytes, 1)
  assert len(list(tmp_path.glob("*.safetensors"))) == num_files


@pytest.mark.parametrize("shard_bytes", [None, 30])
def test_tensors_are_asked_for_in_the_order_wanted(tmp_path, shard_bytes):
  asked = []

  def get(name):
    asked.append(name)
    return ARRAYS[name]

  for folder in ("one", "two"):
    (tmp_path / folder).mkdir()
  shapes = {k: x.shape for k, x in ARRAYS.items()}
  safetensors_folder.write(
      tmp_path / "one", shapes, get, order=["c", "a", "b"],
      shard_bytes=shard_bytes,
  )
  assert asked == ["c", "a", "b"]
  write(tmp_path / "two", shard_bytes=shard_bytes)
  for file in (tmp_path / "one").iterdir():  # The files are the same.
    assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_blocks_of_rows(tmp_path, monkeypatch):
  monkeypatch.setattr(safetensors_folder, "_BLOCK", 7)
  x = np.arange(60, dtype=np.float32).reshape(12, 5)
  arrays = {"a": x, "b": x.copy(), "c": x + (x == 59), "d": x.T, "e": x[0]}
  write(tmp_path, arrays)
  reader = safetensors_folder.Reader(tmp_path)
  for name, expected in arrays.items():
    np.testing.assert_array_equal(reader.get(name), expected)
  assert reader.equal("a", "b")
  for other in "cde":
    assert not reader.equal("a", other)


def test_the_library_reads_one_file(tmp_path):
  write(tmp_path)
  found = safetensors.numpy.load_file(tmp_path / "model.safetensors")
  for name, x in ARRAYS.items():
    np.testing.assert_array_equal(found[name], x)


def test_what_float16_cannot_hold(tmp_path):
  with pytest.raises(errors.UserError, match="a has values that float16"):
    write(tmp_path, {"a": np.float32([1e6])}, dtype="float16")
  for dtype in ("float32", "float16"):
    with pytest.raises(errors.UserError, match="a has values that are not fin"):
      write(tmp_path, {"a": np.float32([1, np.nan])}, dtype=dtype)


@pytest.mark.parametrize("kwargs, says", [(dict(dtype="int8"), "float32"),
                                          (dict(shard_bytes=0), "above 0")])
def test_bad_arguments(tmp_path, kwargs, says):
  with pytest.raises(errors.UserError, match=says):
    write(tmp_path, **kwargs)
  assert not list(tmp_path.iterdir())


def test_missing_and_damaged_files(tmp_path):
  write(tmp_path, shard_bytes=1)
  second = tmp_path / "model-00002-of-00003.safetensors"
  whole = second.read_bytes()
  second.write_bytes(whole[:-2])
  with pytest.raises(errors.UserError, match="00002-of-00003.* damaged"):
    safetensors_folder.Reader(tmp_path)
  second.unlink()
  with pytest.raises(errors.UserError, match="No file .*00002"):
    safetensors_folder.Reader(tmp_path)
  second.write_bytes((tmp_path / "model-00001-of-00003.safetensors")
                     .read_bytes())
  with pytest.raises(errors.UserError, match="in two files"):
    safetensors_folder.Reader(tmp_path)


@pytest.mark.parametrize(
    "index", ["{", "[]", '{"weight_map": 3}', '{"weight_map": {"a": "../x"}}',
              '{"weight_map": {"a": 3}}', '{"weight_map": {"a": ""}}',
              '{"weight_map": {"a": ".."}}', '{"weight_map": {"a": "\\ud800"}}']
)
def test_damaged_index(tmp_path, index):
  (tmp_path / "model.safetensors.index.json").write_text(index)
  with pytest.raises(errors.UserError, match=r"index\.json"):
    safetensors_folder.Reader(tmp_path)


def test_an_index_of_more_than_the_files_hold(tmp_path):
  write(tmp_path, shard_bytes=1)
  file = tmp_path / "model.safetensors.index.json"
  index = json.loads(file.read_text())
  index["weight_map"]["gone"] = next(iter(index["weight_map"].values()))
  file.write_text(json.dumps(index))
  with pytest.raises(errors.UserError, match=r"no file holds \(gone\)"):
    safetensors_folder.Reader(tmp_path)


def test_index_says_how_large(tmp_path):
  write(tmp_path, shard_bytes=1)
  index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
  assert index["metadata"]["total_size"] == 4 * 27
  assert set(index["weight_map"]) == set(ARRAYS)


def test_pickles_are_refused(tmp_path):
  (tmp_path / "pytorch_model.bin").write_bytes(b"")
  with pytest.raises(errors.UserError, match="pickle can.*save_pretrained"):
    safetensors_folder.Reader(tmp_path)
