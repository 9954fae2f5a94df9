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
        ("activation", "swish", "'relu', 'gelu_tanh', 'swiglu'"),
        ("positions", "alibi", "'sinusoidal', 'learned', 'rotary'"),
        ("norm", "batch", "'layer', 'rms'"),
        ("rotary_order", "even", "'halves', 'pairs'"),
        ("num_kv_heads", 3, "num_heads=4 is not a multiple of"),
        ("num_kv_heads", -1, "a whole number, 0 for as many"),
        ("rotary_theta", 0.5, "must be above 1"),
        ("rotary_theta", "big", "must be a number"),
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


def test_rotary_heads_are_even():
  with pytest.raises(errors.UserError, match="heads of 5"):
    TransformerConfig(**GOOD | dict(d_model=20, positions="rotary"))


def test_heads_of_keys():
  assert TransformerConfig(**GOOD).kv_heads == 4
  assert TransformerConfig(**GOOD, num_kv_heads=2).kv_heads == 2


def test_padded_vocabulary():
  assert TransformerConfig(**GOOD).padded_vocab_size == 97
  assert TransformerConfig(**GOOD, vocab_multiple=128).padded_vocab_size == 128


@pytest.mark.parametrize("given, meant", [
    ("True", True), ("False", False), (True, True), (False, False),
])
def test_a_command_line_says_whether_to_scan(given, meant):
  config = TransformerConfig(**GOOD, scan_layers=given)
  assert config.scan_layers is meant and config.scans_layers is meant
