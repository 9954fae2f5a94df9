import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.training import weights


def of_bits(*bits):
  return np.array(bits, np.uint32).view(np.float32)


def tree(kernel):
  return {"layers": {"up": {"kernel": kernel, "bias": np.float32([0.1])}}}


@pytest.mark.parametrize("convert", [np.asarray, jnp.asarray])
def test_halves_by_hand(convert):
  # 1, 1 + 2^-7 (the next bfloat16), and between them: just below the middle,
  # the middle, just above; and the middle's negative.
  x = of_bits(
      0x3F800000, 0x3F810000, 0x3F807FFF, 0x3F808000, 0x3F808001, 0xBF808000
  )
  high, low = weights.split(tree(convert(x)))
  kernel = high["layers"]["up"]["kernel"]
  assert kernel.dtype == jnp.bfloat16
  step = 2.0**-7
  np.testing.assert_array_equal(
      np.asarray(kernel, np.float32),
      [1, 1 + step, 1, 1 + step, 1 + step, -1 - step],
  )
  rest = low["layers"]["up"]["kernel"]
  assert rest.dtype == np.int16
  np.testing.assert_array_equal(
      rest, [0, 0, 0x7FFF, -0x8000, -0x7FFF, -0x8000]
  )
  # No matrix: float32, and nothing is missing.
  assert high["layers"]["up"]["bias"] == np.float32(0.1)
  assert set(low["layers"]["up"]) == {"kernel"}


def test_joined_to_the_bit():
  bits = np.random.default_rng(0).integers(0, 2**32, 100_000, np.uint32)
  x = bits.view(np.float32)
  # All that a weight can be: neither infinite nor next to it.
  x = x[np.abs(x) < 1e38]
  assert (np.abs(x) < 1e-38).any()  # Denormal ones, too.
  high, low = jax.jit(weights.split)(tree(jnp.asarray(x)))
  joined = jax.jit(weights.join)(high, low)
  np.testing.assert_array_equal(
      np.asarray(joined["layers"]["up"]["kernel"]).view(np.uint32),
      x.view(np.uint32),
  )
  assert joined["layers"]["up"]["bias"] == np.float32(0.1)


def test_the_first_half_is_the_nearest():
  x = np.random.default_rng(1).normal(size=10_000).astype(np.float32)
  half = weights.half({"table": jnp.asarray(x)})["table"]
  assert half.dtype == jnp.bfloat16
  np.testing.assert_array_equal(half, jnp.asarray(x).astype(jnp.bfloat16))


def test_updates_below_bfloat16s_precision_add_up():
  """100 times 2^-12 on 1: bfloat16, in steps of 2^-7, would stay at 1."""
  state = weights.split({"kernel": jnp.ones((2, 2))})
  for _ in range(100):
    whole = weights.join(*state)
    state = weights.split({"kernel": whole["kernel"] + 2.0**-12})
  np.testing.assert_array_equal(
      weights.join(*state)["kernel"], 1 + 100 * 2.0**-12
  )


def test_boxes_stay():
  boxed = {
      "kernel": nn.LogicallyPartitioned(jnp.ones((2, 3)), ("embed", "mlp")),
      "bias": nn.LogicallyPartitioned(jnp.ones((3,)), ("mlp",)),
  }
  high, low = weights.split(boxed)
  assert high["kernel"].names == low["kernel"].names == ("embed", "mlp")
  assert high["bias"].value.dtype == jnp.float32
  assert weights.half(boxed)["kernel"].names == ("embed", "mlp")


def test_trees_without_matrices_or_without_else():
  only = {"a": jnp.ones(3)}
  high, low = weights.split(only)
  assert low == {}
  np.testing.assert_array_equal(weights.join(high, low)["a"], only["a"])
  high, low = weights.split({"table": jnp.ones(3)})
  np.testing.assert_array_equal(weights.join(high, low)["table"], 1)
  assert weights.half({}) == {}


@pytest.mark.parametrize(
    "values, says",
    [(("halves", "float32"), "train.weights='halves'"),
     (("split", "float16"), "train.frozen_weights='float16'")],
)
def test_unknown_names(values, says):
  with pytest.raises(errors.UserError, match=says):
    weights.check(*values)
