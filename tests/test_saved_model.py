"""Reading a model from wherever one lies."""

import evaluation_fakes as fakes
import pytest
import shared_data

from ctrl_jax import errors, saved_model


def test_an_export_and_its_sizes_alone(tmp_path):
  folder = tmp_path / "export"
  fakes.write_export(folder, prior=fakes.PRIOR, codes=list(fakes.CODES),
                     sequence_length=9)
  found = saved_model.read(folder)
  # A folder does not say how the model is computed.
  assert found.config == saved_model.read_config(folder)
  assert found.config.d_model == fakes.config().d_model
  assert (found.prior, found.window) == (fakes.PRIOR, 9)
  assert tuple(found.codes) == fakes.CODES
  assert found.tokenizer_folder == folder and found.accumulators is None


def test_a_tensorflow_checkpoint():
  source = shared_data.path("expected/tf_checkpoint")
  found = saved_model.read(source, num_heads=4, with_accumulators=True)
  assert found.config.num_layers == 2 and found.config.max_length == 256
  assert found.accumulators is not None
  # Not the release's vocabulary: its shares are not this model's.
  assert found.prior is None
  with pytest.raises(errors.UserError, match="max_length=0"):
    saved_model.read(source, num_heads=4, max_length=0)
  with pytest.raises(errors.UserError, match="convert --num-heads=N"):
    saved_model.read_config(source)


def test_places_that_hold_none(tmp_path):
  for read in (saved_model.read, saved_model.read_config):
    with pytest.raises(errors.UserError, match="holds no model: found nothing"):
      read(tmp_path)
    with pytest.raises(errors.UserError, match="Expected a workdir"):
      read(tmp_path / "gone")
  fakes.write_export(tmp_path / "export")
  with pytest.raises(errors.UserError, match="are for TensorFlow"):
    saved_model.read(tmp_path / "export", num_heads=2)
