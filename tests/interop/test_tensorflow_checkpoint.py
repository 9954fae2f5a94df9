"""TensorFlow's checkpoints: every tensor as written, or damage that is named.

Those without the fixture `folder` make a checkpoint of their own, from the
format's description.
"""

import ml_dtypes
import numpy as np
import pytest
from tensorflow_fakes import entry, write_index

from ctrl_jax import errors
from ctrl_jax.interop import tensorflow_checkpoint, wire

PREFIX = "model.ckpt-1234"
DATA = PREFIX + ".data-00000-of-00001"
DTYPES = {1: np.float32, 2: np.float64, 3: np.int32, 9: np.int64,
          14: ml_dtypes.bfloat16, 19: np.float16}


def read_all(path):
  checkpoint = tensorflow_checkpoint.Checkpoint(path)
  return {name: checkpoint.read(name) for name in checkpoint.entries}


def assert_same(found, expected):
  assert found.keys() == expected.keys()
  for name, x in found.items():
    assert x.dtype == expected[name].dtype
    np.testing.assert_array_equal(x, expected[name])


@pytest.mark.parametrize("name", ["", PREFIX, PREFIX + ".index", DATA])
def test_every_way_to_name_it(folder, name):
  (folder / "checkpoint").write_text(
      f'model_checkpoint_path: "/elsewhere/{PREFIX}"\n'
  )
  checkpoint = tensorflow_checkpoint.Checkpoint(folder / name)
  assert checkpoint.prefix == folder / PREFIX
  assert checkpoint.read("global_step") == 1234


def test_every_flipped_byte_is_noticed(folder):
  """Never a wrong answer: each tensor and each block has a checksum."""
  expected = read_all(folder)
  index, data = folder / (PREFIX + ".index"), folder / DATA
  rng = np.random.default_rng(0)
  for file in (index, data):
    whole = file.read_bytes()
    used = len(whole) if file == data else len(whole) - 48
    for at in rng.integers(0, used, 60):
      broken = bytearray(whole)
      broken[at] ^= 1 << int(rng.integers(8))
      file.write_bytes(broken)
      try:
        found = read_all(folder)
      except errors.UserError as e:
        assert PREFIX in str(e)
      else:  # The table's statistics and padding, which nothing reads.
        assert file == index
        assert_same(found, expected)
    file.write_bytes(whole)


@pytest.mark.parametrize("keep", [0, 10, 100, 2000, -1])
def test_cut_short(folder, keep):
  for name in (PREFIX + ".index", DATA):
    file = folder / name
    whole = file.read_bytes()
    file.write_bytes(whole[:keep])
    with pytest.raises(errors.UserError, match=f"{name} is damaged"):
      read_all(folder)
    file.write_bytes(whole)


def test_a_bare_ending_names_no_checkpoint():
  for name in (".index", ".meta", "."):
    with pytest.raises(errors.UserError, match="is no TensorFlow checkpoint"):
      tensorflow_checkpoint.Checkpoint(name)


def test_a_place_behind_the_file(tmp_path):
  found = wire.message((1, 1), (2, b""), (4, 1 << 63), (5, 4)) + b"\x35" + (
      bytes(4)
  )
  write_index(tmp_path / "model", {"x": found})
  (tmp_path / "model.data-00000-of-00001").write_bytes(bytes(8))
  checkpoint = tensorflow_checkpoint.Checkpoint(tmp_path / "model")
  with pytest.raises(errors.UserError, match="damaged: the tensor 'x'"):
    checkpoint.read("x")


def test_a_shape_that_is_none(tmp_path):
  """Of no numbers, as its size says, and too long in another direction."""
  content = entry(1, (0, 1 << 63), b"")
  write_index(tmp_path / "model", {"x": content})
  (tmp_path / "model.data-00000-of-00001").write_bytes(b"")
  checkpoint = tensorflow_checkpoint.Checkpoint(tmp_path / "model")
  with pytest.raises(errors.UserError, match="'x' does not have the shape"):
    checkpoint.read("x")


def test_missing_files(folder):
  (folder / DATA).unlink()
  with pytest.raises(errors.UserError, match="No file .*data-00000-of-00001"):
    read_all(folder)
  with pytest.raises(errors.UserError, match="no TensorFlow checkpoint"):
    tensorflow_checkpoint.Checkpoint(folder / "elsewhere")


def test_a_folder_of_several_needs_the_file_that_says_which(tmp_path):
  for name in ("a", "b"):
    write_index(tmp_path / name, {})
  with pytest.raises(errors.UserError, match="a folder with the file `check"):
    tensorflow_checkpoint.Checkpoint(tmp_path)
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "b"\n')
  found = tensorflow_checkpoint.Checkpoint(tmp_path)
  assert found.prefix == tmp_path / "b"
  (tmp_path / "b.index").unlink()
  with pytest.raises(errors.UserError, match=r"No file .*b\.index"):
    tensorflow_checkpoint.Checkpoint(tmp_path)


@pytest.fixture
def two_shards(tmp_path):
  """A checkpoint with a tensor of each type; returns (prefix, tensors)."""
  prefix, tensors, entries = tmp_path / "model", {}, {}
  shards = [b"", b""]
  for n, (dtype, numpy_dtype) in enumerate(DTYPES.items()):
    x = np.arange(6).reshape([(6,), (2, 3), (1, 3, 2)][n % 3])
    tensors[f"x{dtype}"] = x = x.astype(numpy_dtype)
    content = x.tobytes()
    entries[f"x{dtype}"] = entry(
        dtype, x.shape, content, n % 2, len(shards[n % 2])
    )
    shards[n % 2] += content
  tensors["scalar"] = np.array(5, np.int64)
  content = tensors["scalar"].tobytes()
  entries["scalar"] = entry(9, (), content, 1, len(shards[1]))
  shards[1] += content
  entries["text"] = entry(7, (), b"a string")  # No array of numbers.
  write_index(prefix, entries, num_shards=2)
  for n, content in enumerate(shards):
    (tmp_path / f"model.data-{n:05d}-of-00002").write_bytes(content)
  return prefix, tensors


def test_types_shapes_and_shards(two_shards):
  prefix, expected = two_shards
  found = read_all(prefix)
  assert_same(found, expected)
  assert {name: x.shape for name, x in found.items()} == (
      {name: x.shape for name, x in expected.items()}
  )


@pytest.mark.parametrize(
    "found, kwargs, message",
    [
        (entry(1, (3,), b"\0" * 8), {}, "shape and size disagree"),
        (entry(1, (2,), b"\0" * 8)[:-1], {}, "field 6 is cut short"),
        (b"", dict(compression=b"\1"), "blocks are compressed"),
        (wire.message((1, 1), (2, 5), (5, 8)), {}, ""),  # A shape of 5.
        (b"", dict(num_shards=b"two"), ""),
    ],
)
def test_what_no_checkpoint_holds(tmp_path, found, kwargs, message):
  write_index(tmp_path / "model", {"x": found}, **kwargs)
  with pytest.raises(
      errors.UserError, match=rf"model\.index is damaged \(.*{message}"
  ):
    tensorflow_checkpoint.Checkpoint(tmp_path)
