"""GGUF files: read once, and not at all when they are damaged."""

import interop_fakes as fakes
import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.interop import gguf_file

gguf = pytest.importorskip("gguf")


@pytest.fixture
def file(tmp_path):
  file = tmp_path / "model.gguf"
  fakes.write_gguf(
      file, fakes.LLAMA, fakes.random_params(fakes.LLAMA),
      fields={"tokenizer.ggml.tokens": ["a", "b"]},
  )
  return file


def test_fields_and_tensors(file):
  found = gguf_file.read(file)
  assert found.fields["llama.block_count"] == 3
  assert found.fields["tokenizer.ggml.tokens"] == ["a", "b"]
  assert found.shape("blk.2.ffn_down.weight") == [8, 12]
  assert found.get("blk.2.ffn_down.weight").dtype == np.float32
  assert gguf_file.read(file) is found
  fakes.write_gguf(file, fakes.UNTIED, fakes.random_params(fakes.UNTIED))
  assert "output.weight" in gguf_file.read(file).tensors


def test_finding_one(tmp_path, file):
  assert gguf_file.find(file) == file == gguf_file.find(tmp_path)
  (tmp_path / "config.json").write_text("{}")
  assert gguf_file.find(tmp_path) is None
  (tmp_path / "config.json").unlink()
  other = tmp_path / "another"
  file.rename(other)
  assert gguf_file.find(other) == other  # By its first bytes.
  assert gguf_file.find(tmp_path) is None
  for name in "ab":
    (tmp_path / f"{name}.gguf").write_bytes(b"GGUF")
  with pytest.raises(errors.UserError, match="holds 2 GGUF files"):
    gguf_file.find(tmp_path)


def test_cut_off_anywhere(file):
  data = file.read_bytes()
  for n in [*range(0, 1500, 3), *range(1500, len(data) - 32, 97)]:
    file.write_bytes(data[:n])
    with pytest.raises(errors.UserError, match="is damaged or no GGUF"):
      gguf_file.read(file)


def test_numbers_in_the_header_that_are_absurd(file):
  """Whatever stands there: an error or the model, at once and in one line."""
  data = file.read_bytes()
  end = data.index(b"output_norm") + 100
  refused = 0
  for place in range(4, end, 4):
    file.write_bytes(data[:place] + b"\xff\xff\xff\x7f" + data[place + 4:])
    try:
      gguf_file.read(file)
    except errors.UserError as e:
      assert "\n" not in str(e)
      refused += 1
  assert refused > 100


def test_tensors_that_lie_elsewhere(file):
  data = file.read_bytes()
  name = data.index(b"output_norm.weight") + 18
  place = name + 4 + 8 + 4  # One dimension, its size, the type.
  assert int.from_bytes(data[place:place + 8], "little") > 0
  file.write_bytes(data[:place] + bytes(8) + data[place + 8:])
  with pytest.raises(errors.UserError, match="output_norm.weight lies at"):
    gguf_file.read(file)


def test_without_the_package(file, monkeypatch):
  monkeypatch.setitem(__import__("sys").modules, "gguf", None)
  gguf_file._read.cache_clear()
  with pytest.raises(errors.UserError, match="pip install gguf"):
    gguf_file.read(file)


def test_a_type_that_gguf_cannot_turn_into_numbers(file):
  found = gguf_file.read(file)
  name = "output_norm.weight"
  tensor = found.tensors[name]._replace(
      tensor_type=gguf.GGMLQuantizationType.I8
  )
  found = found._replace(tensors={name: tensor})
  with pytest.raises(errors.UserError, match="is kept as I8"):
    found.get(name)
