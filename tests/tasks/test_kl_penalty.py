import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax.tasks.kl_penalty import KLPenalty, Sums

# Three sequences of 2, 4 and 1 targets, and their KL in two dimensions.
KL = jnp.array([[1.0, 0.1], [3.0, 0.3], [2.0, 0.2]])
TOKENS = jnp.array([2.0, 4.0, 1.0])


def sums(kl, rows):
  rows = jnp.asarray(rows)
  return Sums(kl[rows].sum(0), jnp.float32(len(rows)), TOKENS[rows].sum())


@pytest.mark.parametrize("penalty, expected", [
    (KLPenalty(), 6.6),
    # The mean of 2.2 a sequence for each of 7 tokens.
    (KLPenalty("original"), 2.2 * 7),
    # Means 2 and 0.2.
    (KLPenalty(free_bits=0.5), 2.5 * 3),
    (KLPenalty("original", free_bits=0.5), 2.5 * 7),
    (KLPenalty(floor=2.0), 6.6),
    (KLPenalty(floor=4.0), 4 * 3),
    (KLPenalty(free_bits=0.5, floor=2.4), 7.5),
])
def test_by_hand_whole_and_in_parts(penalty, expected):
  whole = lambda kl: penalty(sums(kl, [0, 1, 2]))
  np.testing.assert_allclose(whole(KL), expected, rtol=1e-6)

  def in_parts(kl):
    total = sums(jax.lax.stop_gradient(kl), [0, 1, 2])
    return sum(penalty(sums(kl, rows), total) for rows in ([0], [1, 2]))

  np.testing.assert_allclose(in_parts(KL), expected, rtol=1e-6)
  np.testing.assert_allclose(
      jax.grad(in_parts)(KL), jax.grad(whole)(KL), rtol=1e-6
  )


def test_which_parts_stand_for_themselves():
  assert not KLPenalty().needs_whole
  assert KLPenalty("original").needs_whole and KLPenalty("original").is_linear
  assert KLPenalty(free_bits=0.1).needs_whole and KLPenalty(floor=1).needs_whole


def test_a_batch_without_targets_costs_its_floor_nowhere():
  none = Sums(jnp.zeros(2), jnp.float32(0), jnp.float32(0))
  assert KLPenalty("original")(none) == 0
  # Beside one that has some, nothing is added twice.
  whole = sums(KL, [0, 1, 2])
  assert KLPenalty(floor=4.0)(none, whole) == 0
