"""The model card says what the model is, codes and shares included."""

import dataclasses

import interop_fakes
import pytest

from ctrl_jax import errors
from ctrl_jax.interop import model_card
from ctrl_jax.models import transformer


def test_sizes_codes_and_shares():
  config = interop_fakes.CTRL
  card = model_card.text(
      config,
      dict(codes=["Books", "Reddit r/x"], prior={"Books": 0.25},
           sequence_length=5),
      code_ids={"Books": [7], "Reddit r/x": [8, 9]},
  )
  assert card.startswith("---\nlibrary_name: transformers\n")
  assert f"{transformer.num_parameters(config):,} parameters" in card
  assert "window 5 tokens" in card
  assert "| `Books` | 7 | 0.2500 |" in card
  assert "| `Reddit r/x` | 8 9 |  |" in card
  assert "new_tensor([[7]])  # Books" in card and "auxiliaries" not in card
  assert "code='Books'" in card


def test_with_heads():
  card = model_card.text(interop_fakes.CTRL, {}, heads=["keyword", "topic"])
  assert "auxiliaries that steer it: keyword, topic." in card


def test_of_a_llama():
  assert "# A Llama of" in model_card.text(interop_fakes.LLAMA, {})


def test_without_codes_and_of_gpt2():
  card = model_card.text(interop_fakes.GPT2, {})
  assert "# A GPT-2 of" in card and "control code" not in card
  assert f"window {interop_fakes.GPT2.max_length} tokens" in card


def test_a_model_without_a_layout():
  config = dataclasses.replace(interop_fakes.CTRL, residual="normalised")
  with pytest.raises(errors.UserError, match="residual"):
    model_card.text(config, {})
