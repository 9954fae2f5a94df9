"""Reading a model from wherever one lies."""

import dataclasses
import json

import evaluation_fakes as fakes
import interop_fakes
import pytest
import shared_data
import tensorflow_fakes

from ctrl_jax import errors, saved_model
from ctrl_jax.interop import hugging_face
from ctrl_jax.text import ctrl_codes


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


@pytest.mark.parametrize("kind", ["huggingface", "tensorflow"])
@pytest.mark.parametrize("vocab_size", [246_534, 246_533])
def test_the_releases_shares_are_known(tmp_path, kind, vocab_size):
  """Its files do not hold them; a vocabulary of another size has none."""
  config = dataclasses.replace(interop_fakes.RELEASE, vocab_size=vocab_size)
  params = interop_fakes.random_params(config)
  options = {}
  if kind == "tensorflow":
    tensorflow_fakes.write_ctrl(tmp_path / "model.ckpt-1", config, params)
    options = dict(num_heads=2)
  else:
    hugging_face.write(tmp_path, config, params)
    (tmp_path / hugging_face.EXTRA_FILE).unlink()  # As transformers leaves it.
  found = saved_model.read(tmp_path, lazily=True, **options)
  expected = ctrl_codes.PRIORS if vocab_size == 246_534 else None
  assert found.prior == expected


def test_a_workdir_whose_sections_are_none(tmp_path):
  """LoRA's looks for its frozen model in the section `train`."""
  model = dict(d_model=8, d_ff=8, num_layers=1, num_heads=1, max_length=4)
  (tmp_path / "config.json").write_text(
      json.dumps(dict(vocab_size=9, model=model, lora={}, train=3))
  )
  for read in (saved_model.read, saved_model.read_config):
    with pytest.raises(errors.UserError, match="`train` is 3, not a section"):
      read(tmp_path)


def test_places_that_hold_none(tmp_path):
  for read in (saved_model.read, saved_model.read_config):
    with pytest.raises(errors.UserError, match="holds no model: found nothing"):
      read(tmp_path)
    with pytest.raises(errors.UserError, match="Expected a workdir"):
      read(tmp_path / "gone")
  fakes.write_export(tmp_path / "export")
  with pytest.raises(errors.UserError, match="are for TensorFlow"):
    saved_model.read(tmp_path / "export", num_heads=2)
