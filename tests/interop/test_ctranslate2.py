"""CTranslate2 runs our export and gives the same greedy tokens."""

import sys

import decoding_fakes as fakes
import jax
import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.decoding.generator import Row
from ctrl_jax.decoding.options import GenerationOptions
from ctrl_jax.interop import ctranslate2

TOKENS = [f"t{i}" for i in range(fakes.CONFIG.vocab_size)]


def write(folder, config, params, **fields):
  fields = dict(end=None, unknown="t131", quantization="float32") | fields
  ctranslate2.write(folder, config, params, TOKENS, **fields)


def greedy(folder, prompt, length):
  library = pytest.importorskip("ctranslate2")
  generator = library.Generator(str(folder))
  (found,) = generator.generate_batch(
      [[f"t{i}" for i in prompt]], max_length=length,
      include_prompt_in_result=False, end_token=[],
  )
  return [int(token[1:]) for token in found.sequences[0]]


@pytest.mark.parametrize("config", [fakes.CONFIG, fakes.GPT2])
def test_the_same_greedy_tokens(tmp_path, config):
  pytest.importorskip("ctranslate2")
  generator, params = fakes.model(config)
  write(tmp_path, config, params)
  for prompt in ([5], [70, 7, 9], [128, 90, 3, 2]):
    row = Row(prompt, 1, (0, 0))
    generator.run([row], GenerationOptions(max_new_tokens=16, penalty=1.0))
    assert greedy(tmp_path, prompt, 16) == row.ids
    assert len(set(row.ids)) > 1


def test_eight_bits(tmp_path):
  """Smaller, and the parameters given are left as they were."""
  pytest.importorskip("ctranslate2")
  _, params = fakes.model()
  before = params["layers"]["up"]["kernel"].copy()
  for quantization in ("float32", "int8"):
    (tmp_path / quantization).mkdir()
    write(tmp_path / quantization, fakes.CONFIG, params,
          quantization=quantization)
  size = lambda q: (tmp_path / q / "model.bin").stat().st_size
  assert size("int8") < 0.5 * size("float32")
  assert (params["layers"]["up"]["kernel"] == before).all()
  assert len(greedy(tmp_path / "int8", [5], 8)) == 8


def test_what_cannot_be_written(tmp_path, monkeypatch):
  _, params = fakes.model()
  with pytest.raises(errors.UserError, match="takes CTRL and GPT-2"):
    write(tmp_path, fakes.LLAMA, params)
  with pytest.raises(errors.UserError, match="'int8'"):
    write(tmp_path, fakes.CONFIG, params, quantization="int9")
  with pytest.raises(errors.UserError, match="one for each id"):
    ctranslate2.write(tmp_path, fakes.CONFIG, params, ["a"] * 132, end=None,
                      unknown=None)
  broken = jax.tree.map(np.array, params)
  broken["layers"]["up"]["kernel"][0, 0, 0] = np.nan
  with pytest.raises(errors.UserError, match="not finite in layers/up/kernel"):
    write(tmp_path, fakes.CONFIG, broken)
  monkeypatch.setitem(sys.modules, "ctranslate2", None)
  monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
  with pytest.raises(errors.UserError, match="pip install ctranslate2"):
    write(tmp_path, fakes.CONFIG, params)
  assert not list(tmp_path.iterdir())
