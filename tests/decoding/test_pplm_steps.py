import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.decoding import pplm_steps, steps
from ctrl_jax.decoding.pplm_steps import Amounts, Goal
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig

pytestmark = pytest.mark.slow

BASE = TransformerConfig(
    vocab_size=23, d_model=16, d_ff=32, num_layers=2, num_heads=2,
    max_length=32, dtype="float32", vocab_multiple=8,
)
CONFIGS = {
    "unrolled": BASE,
    "scanned": dataclasses.replace(BASE, scan_layers=True),
    "llama": dataclasses.replace(
        BASE, positions="rotary", activation="swiglu", norm="rms", biases=False,
        head_bias=False, scale_embedding=False, num_kv_heads=1,
    ),
}
PROMPTS = [[3, 1, 4, 1, 5], [9, 2, 6], [5, 3, 5, 8, 9, 7]]
BAG = np.zeros((3, 23), bool)
BAG[0, [2, 11]] = BAG[1, [7]] = BAG[2, [2, 20]] = True
STRONG = Amounts(0.3, 3, 1.5, 0.9)


def params_of(config):
  params = transformer.init(config, jax.random.key(0))
  # Far from uniform: an initial model's gradients are tiny.
  table = params["embedding"]["table"] * 20
  return steps.prepare(config, params | {"embedding": {"table": table}})


def begin(config, prompts=PROMPTS, size=8, slots=16):
  params = params_of(config)
  ids = np.zeros((len(prompts), size), np.int32)
  padding = np.array([size - len(p) for p in prompts], np.int32)
  for row, prompt in zip(ids, prompts):
    row[size - len(prompt):] = prompt
  return params, pplm_steps.start(
      config, params, jnp.asarray(ids), jnp.asarray(padding), slots
  )


def goal_of(kind, rows=3):
  if kind == "bag":
    return Goal(bag=jnp.asarray(BAG[:rows]))
  kernel = jax.random.normal(jax.random.key(5), (16, 4))
  target = jnp.arange(rows, dtype=jnp.int32)
  return Goal(kernel=kernel, bias=jnp.arange(4.0), target=target)



def plain_last_hidden(params, past, rows, position):
  """One token of the unrolled CTRL over [G, n, K] keys and values, in plain
  terms: no cache, no mask, no padding; returns its hidden state and keys."""
  positions = jnp.asarray(transformer.sinusoidal_positions(32, 16))
  x = rows * 4.0 + positions[position]
  new = []
  for layer, (keys, values) in zip(params["layers"], past):
    y = plain_norm(x, layer["norm1"])
    q, k, v = (
        (y @ layer[name]["kernel"] + layer[name]["bias"]).reshape(2, 8)
        for name in ("query", "key", "value")
    )
    keys = jnp.concatenate([keys, k[:, None]], 1)
    values = jnp.concatenate([values, v[:, None]], 1)
    new.append((keys, values))
    scores = jax.nn.softmax(jnp.einsum("hk,hsk->hs", q, keys) / 8**0.5)
    mixed = jnp.einsum("hs,hsk->hk", scores, values).reshape(16)
    x = x + mixed @ layer["output"]["kernel"] + layer["output"]["bias"]
    y = plain_norm(x, layer["norm2"])
    y = jax.nn.relu(y @ layer["up"]["kernel"] + layer["up"]["bias"])
    x = x + y @ layer["down"]["kernel"] + layer["down"]["bias"]
  return plain_norm(x, params["final_norm"]), new


def plain_norm(x, p):
  x = x - x.mean()
  return x / jnp.sqrt((x**2).mean() + 1e-6) * p["scale"] + p["bias"]


def plain_log_probs(params, hidden):
  logits = hidden @ params["embedding"]["table"].T + params["head"]["bias"]
  return jax.nn.log_softmax(logits)


def plain_reading(params, ids):
  """Past of `ids` and the hidden state of each, token by token."""
  past = [(jnp.zeros((2, 0, 8)),) * 2 for _ in params["layers"]]
  states = []
  for position, token in enumerate(ids):
    hidden, past = plain_last_hidden(
        params, past, params["embedding"]["table"][token], position
    )
    states.append(hidden)
  return past, states


def plain_pplm(params, ids, bag, head, amounts, past=None, norms=None):
  """One token of PPLM as the paper and run_pplm.py say it, a row alone.

  Returns fused log-probabilities, the moved past with the last token, norms.
  """
  table = params["embedding"]["table"]
  own_past, states = plain_reading(params, ids)
  if past is None:
    past, _ = plain_reading(params, ids[:-1])
  own_log = plain_log_probs(params, states[-1])
  n = len(ids) - 1

  def loss(delta):
    moved = [(k + dk, v + dv) for (k, v), (dk, dv) in zip(past, delta)]
    hidden, _ = plain_last_hidden(params, moved, table[ids[-1]], n)
    log_p = plain_log_probs(params, hidden)
    p = jnp.exp(log_p)
    kl = amounts.kl_scale * (p * (log_p - own_log)).sum()
    if head is None:
      return -jnp.log(p[bag].sum()) + kl
    kernel, bias, target = head
    total = sum(states[:-1]) + jax.lax.stop_gradient(hidden)
    ahead_past, soft = own_past, p
    for i in range(amounts.horizon_length):
      ahead, ahead_past = plain_last_hidden(
          params, ahead_past, soft @ table, n + 1 + i
      )
      total = total + ahead
      soft = jnp.exp(plain_log_probs(params, ahead))
    mean = total / (n + 1 + amounts.horizon_length)
    return -jax.nn.log_softmax(mean @ kernel + bias)[target] + kl

  delta = [(jnp.zeros_like(k), jnp.zeros_like(v)) for k, v in past]
  norms = norms or [0.0] * len(past)
  recent = np.ones((1, n, 1))
  if amounts.window_length:
    recent[:, : max(n - amounts.window_length, 0)] = 0
  for _ in range(amounts.num_iterations):
    gradient = jax.grad(loss)(delta)
    gradient = [(gk * recent, gv * recent) for gk, gv in gradient]
    new = [float(jnp.sqrt((k**2).sum() + (v**2).sum())) for k, v in gradient]
    norms = [max(a, b) for a, b in zip(norms, new)] if head is None else new
    delta = [
        (dk - amounts.stepsize * gk / norm**amounts.gamma,
         dv - amounts.stepsize * gv / norm**amounts.gamma)
        for (dk, dv), (gk, gv), norm in zip(delta, gradient, norms)
    ]
  moved = [(k + dk, v + dv) for (k, v), (dk, dv) in zip(past, delta)]
  hidden, moved = plain_last_hidden(params, moved, table[ids[-1]], n)
  gm = amounts.gm_scale
  fused = jnp.exp(plain_log_probs(params, hidden)) ** gm
  fused = fused * jnp.exp(own_log) ** (1 - gm)
  return np.log(np.asarray(fused / fused.sum())), moved, norms


AMOUNTS = {
    "bag": Amounts(0.3, 3, 1.5, 0.9),
    "bag in a window": Amounts(0.3, 2, 1.5, 0.99, 0.5, window_length=2),
    "discriminator": Amounts(0.4, 2, 1.0, 0.95),
    "discriminator far": Amounts(0.4, 2, 1.0, 0.95, horizon_length=3),
}


@pytest.mark.parametrize("name", AMOUNTS)
def test_two_tokens_are_those_of_the_formulas(name):
  """Batched, padded, cached and masked equals the plain formulas, row by row;
  the second token tells whether the moved cache and the norms are carried on.
  """
  amounts = AMOUNTS[name]
  kind = name.split()[0]
  goal = goal_of(kind)
  params, state = begin(BASE)
  found, cache, norms = pplm_steps.next_log_probs(
      BASE, params, amounts, goal, state
  )
  tokens = np.array([4, 8, 10], np.int32)
  own = steps.read(BASE, params, state.own, jnp.asarray(tokens))
  total = state.hidden_sum + state.own.hidden
  again = pplm_steps.State(own, cache, jnp.asarray(tokens), total, norms)
  second, _, _ = pplm_steps.next_log_probs(BASE, params, amounts, goal, again)
  for i, prompt in enumerate(PROMPTS):
    head = None
    if kind != "bag":
      head = (goal.kernel, goal.bias, int(goal.target[i]))
    wanted, past, kept = plain_pplm(
        params, prompt, BAG[i].nonzero()[0], head, amounts
    )
    np.testing.assert_allclose(found[i], wanted, atol=2e-3)
    wanted, _, _ = plain_pplm(
        params, [*prompt, int(tokens[i])], BAG[i].nonzero()[0], head, amounts,
        past, kept,
    )
    np.testing.assert_allclose(second[i], wanted, atol=5e-3)


@pytest.mark.parametrize("kind", ["bag", "discriminator"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_batch_is_its_rows(name, kind):
  config = CONFIGS[name]
  goal = goal_of(kind)
  params, state = begin(config)
  whole, _, _ = pplm_steps.next_log_probs(config, params, STRONG, goal, state)
  for i, prompt in enumerate(PROMPTS):
    _, alone = begin(config, [prompt])
    own = Goal(*(
        x if x is None or field in ("kernel", "bias") else x[i:i + 1]
        for field, x in zip(Goal._fields, goal)
    ))
    found, _, _ = pplm_steps.next_log_probs(config, params, STRONG, own, alone)
    np.testing.assert_allclose(found[0], whole[i], atol=2e-3)


def test_scanned_is_unrolled():
  goal = goal_of("bag")
  found = []
  for name in ("unrolled", "scanned"):
    params, state = begin(CONFIGS[name])
    found.append(pplm_steps.next_log_probs(
        CONFIGS[name], params, STRONG, goal, state
    )[0])
  np.testing.assert_allclose(*found, atol=1e-3)


@pytest.mark.parametrize("name", CONFIGS)
def test_it_raises_the_bags_probability(name):
  config = CONFIGS[name]
  goal = goal_of("bag")
  params, state = begin(config)
  mass = lambda log_p: np.where(BAG, np.exp(log_p), 0).sum(1)
  own = mass(pplm_steps.log_probs(config, params, state.own.hidden))
  last = own
  for k in (1, 3):
    amounts = dataclasses.replace(STRONG, num_iterations=k, gamma=1.0)
    moved = mass(pplm_steps.next_log_probs(
        config, params, amounts, goal, state
    )[0])
    assert (moved > last).all(), (k, moved, last)
    last = moved


@pytest.mark.parametrize("kind", ["bag", "discriminator"])
def test_without_a_step_and_fusion_it_is_the_model(kind):
  params, state = begin(BASE)
  own = pplm_steps.log_probs(BASE, params, state.own.hidden)
  call = lambda **fields: pplm_steps.next_log_probs(
      BASE, params, dataclasses.replace(STRONG, **fields), goal_of(kind), state
  )[0]
  np.testing.assert_array_equal(call(stepsize=0.0, gm_scale=0.0), own)
  np.testing.assert_array_equal(call(gm_scale=0.0), own)
  np.testing.assert_allclose(call(stepsize=0.0), own, atol=1e-5)
  assert np.abs(call() - own).max() > 1e-2


def test_the_window_is_the_most_recent_positions():
  mask = pplm_steps.window_mask(8, jnp.int32(5), 2)
  np.testing.assert_array_equal(mask, np.array([0, 0, 0, 1, 1, 0, 0, 0], bool))
  mask = pplm_steps.window_mask(8, jnp.int32(5), 0)
  np.testing.assert_array_equal(mask, np.arange(8) < 5)
  mask = pplm_steps.window_mask(8, jnp.int32(1), 5)
  np.testing.assert_array_equal(mask, np.arange(8) < 1)
  amounts = dataclasses.replace(STRONG, window_length=2)
  params, state = begin(BASE)
  delta, _ = pplm_steps.find_delta(
      BASE, params, goal_of("bag"), amounts, state
  )
  for x in jax.tree.leaves(delta):
    moved = np.abs(np.asarray(x)).sum((1, 3)) > 0  # [B, S].
    assert moved[:, 5:7].all() and moved.sum() == moved[:, 5:7].sum()


def test_padding_is_not_moved_and_a_prompt_of_one_token_works():
  params, state = begin(BASE, [[3], *PROMPTS[1:]])
  delta, norms = pplm_steps.find_delta(
      BASE, params, goal_of("bag"), STRONG, state
  )
  for x in jax.tree.leaves(delta):
    moved = np.abs(np.asarray(x)).sum((1, 3)) > 0
    assert not moved[0].any()
    assert moved[1].nonzero()[0].tolist() == [5, 6]
  log_p, _, _ = pplm_steps.next_log_probs(
      BASE, params, STRONG, goal_of("bag"), state
  )
  own = pplm_steps.log_probs(BASE, params, state.own.hidden)
  np.testing.assert_allclose(log_p[0], own[0], atol=1e-4)


def test_the_norm_is_of_keys_and_values_together():
  gradient = tuple(
      (jnp.full((1, 1, 2, 1), 3.0 * i), jnp.full((1, 1, 2, 1), 4.0 * i))
      for i in (1.0, 2.0)
  )
  found = pplm_steps.gradient_norms(BASE, gradient)
  np.testing.assert_allclose(jnp.stack(found), np.sqrt([[50.0], [200.0]]))
  stacked = jax.tree.map(lambda *x: jnp.stack(x), *gradient)
  found = pplm_steps.gradient_norms(CONFIGS["scanned"], stacked)
  np.testing.assert_allclose(found[0], np.sqrt([[50.0], [200.0]]))


@pytest.mark.parametrize("fields", [
    dict(stepsize=-1.0), dict(gamma=float("nan")), dict(kl_scale="1"),
    dict(gm_scale=1.5), dict(num_iterations=1.5), dict(window_length=-1),
    dict(horizon_length=0),
])
def test_amounts_out_of_range(fields):
  with pytest.raises(errors.UserError, match=next(iter(fields))):
    dataclasses.replace(STRONG, **fields).check(looks_ahead=True)
  dataclasses.replace(STRONG, horizon_length=0).check(looks_ahead=False)
