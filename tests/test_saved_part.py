import os

import numpy as np
import pytest
import safetensors.numpy

from ctrl_jax import errors, saved_part

PARAMS = dict(a=dict(kernel=np.arange(6.0).reshape(2, 3).T), b=np.zeros(2))


def test_what_is_written_is_read(tmp_path):
  saved_part.write(tmp_path, "part", dict(name="é"), PARAMS)
  assert '"name": "é"' in (tmp_path / "part.json").read_text()
  found = saved_part.read_params(tmp_path, "part")
  np.testing.assert_array_equal(found["a"]["kernel"], PARAMS["a"]["kernel"])
  np.testing.assert_array_equal(found["b"], PARAMS["b"])


def test_both_files_have_one_mode(tmp_path):
  saved_part.write(tmp_path, "part", {}, PARAMS)
  modes = {f.suffix: f.stat().st_mode for f in tmp_path.iterdir()}
  assert modes[".safetensors"] == modes[".json"]


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs Linux's full device"
)
def test_a_full_disk(tmp_path):
  (tmp_path / "part.safetensors").symlink_to("/dev/full")
  with pytest.raises(OSError, match="No space left") as caught:
    saved_part.write(tmp_path, "part", {}, PARAMS)
  assert "Free some space" in errors.one_line(caught.value)


@pytest.mark.parametrize("order", [1, -1])
def test_a_tensor_that_is_a_group_too(tmp_path, order):
  x = np.zeros(2)
  safetensors.numpy.save_file(
      {name: x for name in ("k", "k/x")[::order]},
      tmp_path / "part.safetensors",
  )
  with pytest.raises(errors.UserError, match="'k' is both a tensor and a gr"):
    saved_part.read_params(tmp_path, "part")


def test_missing_and_damaged(tmp_path):
  with pytest.raises(errors.UserError, match="copy it there"):
    saved_part.read_params(tmp_path, "part")
  (tmp_path / "part.safetensors").write_bytes(b"short")
  with pytest.raises(errors.UserError, match="copy it again"):
    saved_part.read_params(tmp_path, "part")
