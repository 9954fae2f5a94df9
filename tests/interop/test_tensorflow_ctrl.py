"""The original's checkpoints: its own logits, and damage that is named."""

import shutil

import jax
import numpy as np
import pytest
import shared_data

import ctrl_jax
from ctrl_jax import errors
from ctrl_jax.interop import (
    assemble,
    layouts,
    tensorflow_checkpoint,
    tensorflow_ctrl,
)

PREFIX = "model.ckpt-1234"


@pytest.fixture
def folder(tmp_path):
  """A copy of the original's checkpoint, to damage."""
  source = shared_data.path("expected/tf_checkpoint")
  for file in source.iterdir():
    shutil.copyfile(file, tmp_path / file.name)
  return tmp_path


def test_logits_are_the_originals(folder):
  expected = np.load(folder / "expected.npz")
  model = ctrl_jax.load(folder, num_heads=4)
  assert model.config.num_layers == 2
  np.testing.assert_allclose(
      model.logits(expected["ids"]), expected["logits"], atol=1e-4
  )


@pytest.mark.parametrize(
    "name", ["", PREFIX, PREFIX + ".index", PREFIX + ".data-00000-of-00001"]
)
def test_every_way_to_name_it(folder, name):
  (folder / "checkpoint").write_text(
      f'model_checkpoint_path: "/elsewhere/{PREFIX}"\n'
  )
  found = tensorflow_ctrl.read(
      folder / name, num_heads=4, with_accumulators=True
  )
  assert found.step == 1234
  assert jax.tree.map(np.shape, found.params) == (
      jax.tree.map(np.shape, found.accumulators)
  )
  assert min(x.min() for x in jax.tree.leaves(found.accumulators)) > 0
  accumulator = tensorflow_checkpoint.Checkpoint(folder).read("b/Adagrad")
  np.testing.assert_array_equal(found.accumulators["head"]["bias"], accumulator)


def test_heads_must_be_given(folder):
  with pytest.raises(errors.UserError, match="give num_heads"):
    ctrl_jax.load(folder)


def test_every_flipped_byte_is_noticed(folder):
  """Never a wrong answer: each tensor and each block has a checksum."""
  index = folder / (PREFIX + ".index")
  data = folder / (PREFIX + ".data-00000-of-00001")
  rng = np.random.default_rng(0)
  for file in (index, data):
    whole = file.read_bytes()
    used = len(whole) if file == data else len(whole) - 48
    for at in rng.integers(0, used, 60):
      broken = bytearray(whole)
      broken[at] ^= 1 << int(rng.integers(8))
      file.write_bytes(broken)
      try:
        found = tensorflow_ctrl.read(
            folder, num_heads=4, with_accumulators=True
        )
      except errors.UserError as e:
        assert PREFIX in str(e)
      else:  # The table's statistics and padding, which nothing reads.
        assert file == index
        assert found.step == 1234
    file.write_bytes(whole)


@pytest.mark.parametrize("keep", [0, 10, 100, 2000, -1])
def test_cut_short(folder, keep):
  for suffix in (".index", ".data-00000-of-00001"):
    file = folder / (PREFIX + suffix)
    whole = file.read_bytes()
    file.write_bytes(whole[:keep])
    with pytest.raises(errors.UserError, match="damaged"):
      tensorflow_ctrl.read(folder, num_heads=4, with_accumulators=True)
    file.write_bytes(whole)


def test_missing_files(folder, tmp_path):
  (folder / (PREFIX + ".data-00000-of-00001")).unlink()
  with pytest.raises(errors.UserError, match="No file .*data-00000-of-00001"):
    tensorflow_ctrl.read(folder, num_heads=4)
  with pytest.raises(errors.UserError, match="no TensorFlow checkpoint"):
    tensorflow_ctrl.read(tmp_path / "elsewhere")


def test_tensors_that_are_not_there(monkeypatch, folder):
  real = layouts.tensorflow_ctrl
  monkeypatch.setattr(
      layouts, "tensorflow_ctrl",
      lambda n: [t._replace(name=t.name.replace("beta", "gone"))
                 for t in real(n)],
  )
  with pytest.raises(errors.UserError, match="Missing: .*gone.* Not expected"):
    tensorflow_ctrl.read(folder, num_heads=4)


def test_numbering_of_many_layers():
  """No suffix for the first; the last norm is number 2L: 72 at 36 layers."""
  names = {t.name: t for t in layouts.tensorflow_ctrl(36)}
  assert len(names) == 36 * 16 + 4
  for name in (
      "encoder/encoder_layer/multi_head_attention/dense/kernel",
      "encoder/encoder_layer_31/multi_head_attention_31/dense_189/bias",
      "encoder/encoder_layer_35/layer_normalization_71/beta",
      "encoder/layer_normalization_72/gamma",
  ):
    assert name in names
  assert "encoder/encoder_layer/layer_normalization/gamma" in names
  assert assemble.listing("Missing", []) == ""
