import pytest

from ctrl_jax import errors
from ctrl_jax.models.config import TransformerConfig

GOOD = dict(
    vocab_size=97, d_model=16, d_ff=32, num_layers=2, num_heads=4, max_length=8
)


@pytest.mark.parametrize(
    "field, value, says",
    [
        ("num_heads", 3, "d_model=16 is not a multiple"),
        ("activation", "swish", "'relu', 'gelu_tanh'"),
        ("positions", "rotary", "'sinusoidal', 'learned'"),
        ("residual", "post", "'raw', 'normalised'"),
        ("remat", "half", "'none', 'full', 'dots'"),
        ("dtype", "float16", "'auto', 'float32', 'bfloat16'"),
        ("num_layers", 0, "a whole number, at least 1"),
        ("d_model", "16", "a whole number, at least 1"),
        ("dropout", "high", "must be a number"),
        ("num_heads", 0, "a whole number, at least 1"),
        ("layer_norm_epsilon", float("nan"), "must be 0 or more"),
        ("embedding_init", -1.0, "must be 0 or more"),
        ("dropout", 1.0, "not in [0, 1)"),
    ],
)
def test_bad_value_is_named_with_its_choices(field, value, says):
  with pytest.raises(errors.UserError) as e:
    TransformerConfig(**{**GOOD, field: value})
  assert f"model.{field}" in str(e.value) or field == "num_heads"
  assert says in str(e.value)


def test_padded_vocabulary():
  assert TransformerConfig(**GOOD).padded_vocab_size == 97
  assert TransformerConfig(**GOOD, vocab_multiple=128).padded_vocab_size == 128
