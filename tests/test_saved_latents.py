import dataclasses
import types

import numpy as np
import pytest

from ctrl_jax import errors, saved_latents
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.saved_latents import SavedLatents

BASE = TransformerConfig(
    vocab_size=5, d_model=4, d_ff=8, num_layers=1, num_heads=2, max_length=4
)


def model(seed=0, size=3):
  """What a `LanguageModel` has, as far as latents look at it."""
  rng = np.random.default_rng(seed)
  cvae = types.SimpleNamespace(
      config=types.SimpleNamespace(latent_size=size),
      params=dict(query=rng.normal(size=4).astype(np.float32)),
  )
  params = dict(final_norm=dict(scale=np.ones(4, np.float32)))
  return types.SimpleNamespace(config=BASE, params=params, cvae=cvae)


def made(**changes):
  mean = np.arange(6, dtype=np.float32).reshape(2, 3)
  found = SavedLatents(
      ("a", "é"), mean, -mean, saved_latents.model_hash(model())
  )
  return dataclasses.replace(found, **changes)


def test_what_is_saved_is_read(tmp_path):
  file = tmp_path / "z.npz"
  made().save(file)
  found = saved_latents.read(file)
  assert found.ids == ("a", "é") and found.model == made().model
  np.testing.assert_array_equal(found.mean, made().mean)
  np.testing.assert_array_equal(found.log_variance, made().log_variance)
  found.check(model())
  assert found.places([]) == [0, 1] and found.places(["é"]) == [1]
  with pytest.raises(errors.UserError, match="has no latent 'b'"):
    found.places(["b"])


def test_of_another_width_or_model(tmp_path):
  file = tmp_path / "z.npz"
  made().save(file)
  found = saved_latents.read(file)
  with pytest.raises(errors.UserError, match="have 3 numbers, this model's 4"):
    found.check(model(size=4))
  with pytest.raises(errors.UserError, match="another model.*encode the texts"):
    found.check(model(seed=1))


@pytest.mark.parametrize("content", [
    b"", b"no zip", b"PK\x03\x04 cut", b"\x93NUMPY",
])
def test_damaged_files(tmp_path, content):
  file = tmp_path / "z.npz"
  file.write_bytes(content)
  with pytest.raises(errors.UserError, match="or a damaged one"):
    saved_latents.read(file)


@pytest.mark.parametrize("change", [
    # The directory's entry: encrypted, packed in another way.
    lambda raw: flipped(raw, raw.rindex(b"PK\1\2") + 8),
    lambda raw: flipped(raw, raw.rindex(b"PK\1\2") + 10),
    # More than fits into memory.
    lambda raw: raw.replace(b"(2, 3), }      ", b"(2999999999,),}"),
])
def test_what_no_archive_is_like(tmp_path, change):
  file = tmp_path / "z.npz"
  made().save(file)
  raw = file.read_bytes()
  assert change(raw) != raw
  file.write_bytes(change(raw))
  with pytest.raises(errors.UserError, match="or a damaged one"):
    saved_latents.read(file)


def flipped(raw, at):
  return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1:]


def test_files_cut_anywhere_and_files_of_others(tmp_path):
  file = tmp_path / "z.npz"
  made().save(file)
  whole = file.read_bytes()
  for end in range(0, len(whole), 97):
    file.write_bytes(whole[:end])
    with pytest.raises(errors.UserError, match="make it again"):
      saved_latents.read(file)
  np.savez(file, x=np.zeros(3))
  with pytest.raises(errors.UserError, match="no file of latents"):
    saved_latents.read(file)
  with pytest.raises(errors.UserError, match="There is no file"):
    saved_latents.read(tmp_path / "gone.npz")


@pytest.mark.parametrize("changes", [
    dict(ids=("a", "a")), dict(ids=("a",)),
    dict(mean=np.zeros((2, 4), np.float32)),
    dict(mean=np.full((2, 3), np.nan, np.float32)),
    dict(mean=np.zeros((2, 3), np.int32)),
])
def test_contents_that_cannot_be(tmp_path, changes):
  file = tmp_path / "z.npz"
  made(**changes).save(file)
  with pytest.raises(errors.UserError, match="cannot be"):
    saved_latents.read(file)
