import json
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.decoding import rules

SHARED = pathlib.Path(__file__).parents[3] / "shared" / "data" / "expected"


keep_top_k = jax.jit(rules.keep_top_k, static_argnums=1)
keep_top_p = jax.jit(rules.keep_top_p, static_argnums=2)


def sorted_top_k(logits, k):
  """The same by a full, stable sort."""
  out = np.full_like(logits, -np.inf)
  for row, x in enumerate(logits):
    keep = np.argsort(-x, kind="stable")[:k]
    out[row, keep] = x[keep]
  return out


def sorted_top_p(logits, p):
  out = np.full_like(logits, -np.inf)
  for row, x in enumerate(logits):
    x64 = x.astype(np.float64)
    probs = np.exp(x64 - x64.max())
    probs /= probs.sum()
    order = np.argsort(-x, kind="stable")
    before = np.cumsum(probs[order]) - probs[order]
    keep = order[before < p]
    out[row, keep] = x[keep]
  return out


def test_penalty_of_the_paper_divides_and_raises_negative_logits():
  logits = jnp.array([[2.4, -2.4, 1.0, -1.0]])
  seen = jnp.array([[True, True, False, False]])
  np.testing.assert_allclose(
      rules.penalise(logits, seen, jnp.float32(1.2), "paper"),
      [[2.0, -2.0, 1.0, -1.0]], rtol=1e-6,
  )
  np.testing.assert_allclose(
      rules.penalise(logits, seen, jnp.float32(1.2), "sign_aware"),
      [[2.0, -2.88, 1.0, -1.0]], rtol=1e-6,
  )


def test_penalty_against_hugging_face():
  file = SHARED / "repetition_penalty.json"
  if not file.exists():
    pytest.skip("no file of expected values")
  case = json.loads(file.read_text())
  scores = np.full((2, case["vocab"]), 0.1, np.float32)
  scores[0, 0], scores[1, 5] = -0.1, 0.4
  seen = np.zeros(scores.shape, bool)
  for row, ids in enumerate(case["input_ids"]):
    seen[row, ids] = True
  got = {
      rule: np.asarray(
          rules.penalise(
              jnp.asarray(scores), jnp.asarray(seen),
              jnp.float32(case["penalty"]), rule,
          )
      )
      for rule in ("sign_aware", "paper")
  }
  for place, expected in case["expected"].items():
    row, column = map(int, place.split(","))
    assert got["sign_aware"][row, column] == pytest.approx(expected)
    if expected > 0:
      assert got["paper"][row, column] == pytest.approx(expected)
    else:
      assert got["paper"][row, column] == pytest.approx(-0.05)


@pytest.mark.parametrize("k", [1, 50, 1500, 5000])
def test_top_k_equals_a_full_sort(k):
  # One decimal: plenty of ties.
  logits = np.random.default_rng(0).normal(size=(3, 3000)).round(1)
  logits = logits.astype(np.float32)
  logits[0, ::7] = -np.inf
  logits[1, :5] = [0.0, -0.0, 0.0, -0.0, 0.0]
  np.testing.assert_array_equal(
      keep_top_k(jnp.asarray(logits), k), sorted_top_k(logits, k)
  )


@pytest.mark.parametrize("p", [0.01, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("window", [1024, 16])
def test_top_p_equals_a_full_sort(p, window):
  logits = np.random.default_rng(1).normal(size=(4, 2000)) * [[0.1], [1], [3],
                                                             [9]]
  logits = logits.astype(np.float32)
  logits[2, ::3] = -np.inf
  got = keep_top_p(jnp.asarray(logits), jnp.float32(p), window)
  np.testing.assert_array_equal(got, sorted_top_p(logits, p))


@pytest.mark.parametrize("window", [8, 2])
def test_top_p_with_ties_and_at_the_border(window):
  probs = np.array([[1, 1, 1, 1, 2, 2, 4, 4]], np.float32) / 16
  logits = jnp.log(jnp.asarray(probs))

  def kept(p):
    out = keep_top_p(logits, jnp.float32(p), window)
    return np.flatnonzero(np.isfinite(out[0])).tolist()

  assert kept(0.01) == [6]
  assert kept(0.45) == [6, 7]  # The token that crosses p stays.
  assert kept(0.55) == [4, 6, 7]  # Of equal tokens the lower id.
  assert kept(0.7) == [4, 5, 6, 7]
  assert kept(0.8) == [0, 4, 5, 6, 7]
  assert kept(0.9999) == list(range(8))


def test_overflow_of_one_row_leaves_the_others_alone():
  flat = np.zeros((1, 3000), np.float32)
  peaked = np.random.default_rng(2).normal(size=(1, 3000)).astype(np.float32)
  both = np.concatenate([flat, 9 * peaked])
  together = keep_top_p(jnp.asarray(both), jnp.float32(0.9))
  alone = keep_top_p(jnp.asarray(both[1:]), jnp.float32(0.9))
  np.testing.assert_array_equal(together[1:], alone)
  assert np.isfinite(together[0]).sum() == pytest.approx(2700, abs=1)


def test_low_temperature_is_greedy_and_finite():
  logits = jnp.array([[1.0, 1.001, -3e4, -jnp.inf]])
  for temperature in (1e-45, 1e-8):
    out = np.asarray(rules.heat(logits, jnp.float32(temperature)))
    assert not np.isnan(out).any()
    assert out[0].argmax() == 1
    assert np.exp(out[0])[[0, 2, 3]].max() == 0


def test_largest_is_argmax():
  logits = np.random.default_rng(3).normal(size=(5, 700)).round(1)
  np.testing.assert_array_equal(
      rules.largest(jnp.asarray(logits)), logits.argmax(-1)
  )


def _choose(sample_rules, batch=4, vocab=1100, **values):
  values = {
      k: jnp.float32(v)
      for k, v in (dict(penalty=1.2, temperature=1.0, top_p=0.9) | values)
      .items()
  }
  return lambda logits, keys: rules.choose(
      logits, jnp.zeros(logits.shape, bool), jnp.zeros((1, vocab), bool), keys,
      values, sample_rules,
  )


def test_frequencies_follow_the_softmax():
  logits = jnp.log(jnp.array([0.5, 0.25, 0.125, 0.0625, 0.0625]))
  choose = jax.jit(_choose(rules.Rules(True, ""), vocab=5))
  n = 4000
  tokens = choose(
      jnp.broadcast_to(logits, (n, 5)), jax.random.split(jax.random.key(0), n)
  )
  counts = np.bincount(np.asarray(tokens), minlength=5)
  expected = n * np.exp(np.asarray(logits))
  chi_square = ((counts - expected) ** 2 / expected).sum()
  assert chi_square < 18.5  # 99.9 % at 4 degrees of freedom.


@pytest.mark.parametrize(
    "sample_rules",
    [
        rules.Rules(False, "paper"),
        rules.Rules(True, "", top_k=50),
        rules.Rules(True, "", top_k=1050),
        rules.Rules(True, "", top_p=True),
        rules.Rules(True, "paper", top_k=40, top_p=True),
    ],
)
def test_no_sort_of_the_vocabulary(sample_rules):
  logits = jnp.zeros((4, 1100))
  keys = jax.random.split(jax.random.key(0), 4)
  lowered = jax.jit(_choose(sample_rules)).lower(logits, keys)
  hlo = lowered.compile().as_text()
  assert not re.findall(r"= .* sort\(", hlo)


@pytest.mark.parametrize("window", [2, 4, 1024])
@pytest.mark.parametrize(
    "p, kept, without",
    [
        (0.45, [0], [0]),  # The first crosses: one stays in any case.
        (0.5, [0], [0]),
        (0.6, [0, 1], [0]),
        (0.76, [0, 1, 2], [0, 1]),
        (0.99, [0, 1, 2, 3], [0, 1, 2]),
    ],
)
def test_nucleus_with_and_without_the_crossing_token(window, p, kept, without):
  """On 0.5, 0.25, 0.125, 0.125; the release drops what crosses p."""
  logits = jnp.log(jnp.array([[0.5, 0.25, 0.125, 0.125]]))
  for crossing, expected in ((True, kept), (False, without)):
    found = rules.keep_top_p(logits, jnp.float32(p), window, crossing)
    assert np.flatnonzero(np.isfinite(found[0])).tolist() == expected


def test_tokens_without_penalty_and_bans_after_the_cuts():
  logits = jnp.array([[4.0, 3.9, 1.0, 0.5]])
  seen = jnp.array([[True, True, False, False]])
  banned = jnp.zeros((1, 4), bool)
  values = dict(
      penalty=jnp.float32(2), temperature=jnp.float32(1), top_p=jnp.float32(1),
      exempt=jnp.array([False, True, False, False]),
      banned_after=jnp.array([True, False, False, False]),
  )
  keys = jax.random.split(jax.random.key(0), 1)

  def choose(**fields):
    return int(rules.choose(
        logits, seen, banned, keys, values, rules.Rules(**fields)
    )[0])

  assert choose(sample=False, penalty="paper") == 0
  assert choose(sample=False, penalty="paper", exempt=True) == 1
  assert choose(sample=False, penalty="", ban_after=True) == 1
  # Of the two that top-k leaves one is banned after it.
  assert choose(sample=True, penalty="", top_k=2, ban_after=True) == 1


@pytest.mark.parametrize("cut", [dict(top_k=1), dict(top_p=True)])
def test_bans_after_the_cuts_that_leave_nothing(cut):
  """Row 0 loses its only token, and 2 and 0 are banned; row 1 keeps its own."""
  logits = jnp.array([[3.0, 1.0, 9.0, 2.0], [0.0, 1.0, 2.0, 9.0]])
  banned = jnp.array([[True, False, False, False]])
  values = dict(
      temperature=jnp.float32(1), top_p=jnp.float32(0.5),
      banned_after=jnp.array([False, False, True, False]),
  )
  for seed in range(20):  # Not drawn: 1 would come in a quarter of them.
    found = rules.choose(
        logits, jnp.zeros((2, 4), bool), banned,
        jax.random.split(jax.random.key(seed), 2), values,
        rules.Rules(sample=True, penalty="", ban_after=True, **cut),
    )
    assert found.tolist() == [3, 3]


@pytest.mark.parametrize(
    "banned, after, end, minimum, says",
    [
        ([1, 1, 1], None, 0, 0, "Every token is banned"),
        ([1, 1, 0], [0, 0, 1], 0, 0, "Every token is banned"),
        ([0, 1, 1], None, 0, 1, "min_new_tokens=1"),
        ([0, 0, 1], [0, 1, 0], 0, 1, "min_new_tokens=1"),
        ([0, 1, 1], None, 0, 0, None),
        ([0, 1, 1], None, None, 1, None),
        ([0, 0, 1], None, 0, 1, None),
    ],
)
def test_some_token_may_come(banned, after, end, minimum, says):
  banned = np.array(banned, bool)
  after = None if after is None else np.array(after, bool)
  if says is None:
    rules.check_some_token(banned, after, end, minimum)
    return
  with pytest.raises(errors.UserError, match=says):
    rules.check_some_token(banned, after, end, minimum)
