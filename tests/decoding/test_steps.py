"""The compiled part: what it reads equals plain passes, blocks end in time."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decoding_fakes import CONFIG, GPT2, LLAMA, model, plain_logits

from ctrl_jax.decoding import rules as rules_lib
from ctrl_jax.decoding import steps

PROMPTS = [[128, 5, 9, 5], [129], [128, 77, 3, 2, 1, 90, 41]]
BLOCK_SIZE = 16
SCANNED = dataclasses.replace(LLAMA, scan_layers=True, rotary_order="pairs")
ALL = pytest.mark.parametrize(
    "config", [CONFIG, GPT2, LLAMA, SCANNED],
    ids=["ctrl", "gpt2", "llama", "scanned_llama"],
)

_next_logits = jax.jit(steps.next_logits, static_argnums=0)
_read = jax.jit(steps.read, static_argnums=0)


def prefilled(config, params, prompts=PROMPTS, cache_length=32):
  ids = np.zeros((len(prompts), 16), np.int32)
  for row, prompt in zip(ids, prompts):
    row[16 - len(prompt):] = prompt
  padding = np.array([16 - len(p) for p in prompts], np.int32)
  return steps.prefill(config, params, ids, padding, cache_length)


def prepared(config=CONFIG):
  """Returns the model's parameters, as they are and laid out for decoding."""
  _, params = model(config)
  return params, steps.prepare(config, params)


def block_arguments(params, num_steps, end=-1, min_steps=0, done=(0, 0, 0)):
  """Arguments of `generate_block`: greedy, with a penalty of 1."""
  values = dict(
      penalty=np.float32(1), temperature=np.float32(0), top_p=np.float32(1),
      banned=jnp.zeros(CONFIG.vocab_size, bool), end=np.int32(end),
      min_steps=np.int32(min_steps),
  )
  progress = steps.Progress(
      jnp.zeros((3, CONFIG.vocab_size), bool), jnp.int32(0),
      jnp.array(done, bool), jax.random.split(jax.random.key(0), 3),
  )
  rules = rules_lib.Rules(sample=False, penalty="paper")
  return (
      CONFIG, params, prefilled(CONFIG, params), progress,
      np.int32(num_steps), values, rules, BLOCK_SIZE,
  )


def block(*args, **kwargs):
  """Generates a block; returns the progress and the tokens."""
  _, progress, tokens, finite = steps.generate_block(
      *block_arguments(*args, **kwargs)
  )
  assert finite.all()
  return progress, np.asarray(tokens)


@ALL
def test_logits_after_cached_steps_equal_plain_passes(config):
  params, ours = prepared(config)
  session = prefilled(config, ours)
  tokens = np.random.default_rng(0).integers(0, 128, (12, 3), np.int32)
  for token in tokens:
    session = _read(config, ours, session, token)
  expected = [
      plain_logits(config, params, [*prompt, *row])
      for prompt, row in zip(PROMPTS, tokens.T)
  ]
  np.testing.assert_allclose(
      _next_logits(config, ours, session), expected, rtol=1e-5, atol=1e-4
  )


@ALL
def test_repeated_rows_are_neighbours(config):
  _, ours = prepared(config)
  session = prefilled(config, ours)
  token = np.array([7, 8, 9], np.int32)
  expected = _next_logits(config, ours, _read(config, ours, session, token))
  session = steps.repeat(config, session, 2)
  session = _read(config, ours, session, token.repeat(2))
  np.testing.assert_allclose(
      _next_logits(config, ours, session), np.repeat(expected, 2, 0),
      rtol=1e-5, atol=1e-4,
  )


@pytest.mark.parametrize("config", [LLAMA, SCANNED], ids=["llama", "scanned"])
def test_shared_heads_are_cached_once(config):
  _, ours = prepared(config)
  cache = prefilled(config, ours).cache
  # 2 layers of keys and values: 3 rows, 2 heads, 32 slots, 8 wide.
  assert sum(x.size for x in jax.tree.leaves(cache)) == 2 * 2 * 3 * 2 * 32 * 8


@pytest.mark.parametrize("scan", [False, True])
def test_parameters_for_decoding(scan):
  config = dataclasses.replace(CONFIG, dtype="bfloat16", scan_layers=scan)
  params, _ = prepared()
  assert params["embedding"]["table"].shape[0] > config.vocab_size
  ours = steps.prepare(config, params)
  assert ours["embedding"]["table"].shape == (config.vocab_size, 32)
  assert ours["embedding"]["table"].dtype == jnp.bfloat16
  assert ours["head"]["bias"].shape == (config.vocab_size,)
  assert ours["head"]["bias"].dtype == jnp.float32
  assert ("kernel" in ours["head"]) == (not scan)
  layer = ours["layers"] if scan else ours["layers"][1]
  assert layer["up"]["kernel"].dtype == jnp.bfloat16
  assert layer["norm1"]["scale"].dtype == jnp.float32
  assert params["layers"]["up"]["kernel"].dtype == jnp.float32


@pytest.mark.parametrize("scan", [False, True])
def test_bfloat16_is_close_to_the_plain_model(scan):
  config = dataclasses.replace(CONFIG, dtype="bfloat16", scan_layers=scan)
  _, params = model()
  ours = steps.prepare(config, params)
  session = prefilled(config, ours)
  assert {x.dtype.name for x in jax.tree.leaves(session.cache)} == {"bfloat16"}
  expected = np.stack([plain_logits(config, params, p) for p in PROMPTS])
  error = np.abs(_next_logits(config, ours, session) - expected)
  assert error.max() < 0.05 * np.abs(expected).max()


def test_a_block_makes_no_more_steps_than_asked():
  _, ours = prepared()
  progress, whole = block(ours, 9)
  assert progress.step == 9 and not progress.done.any()
  assert not whole[:, 9:].any()
  progress, part = block(ours, 4)
  assert progress.step == 4
  np.testing.assert_array_equal(part[:, :4], whole[:, :4])
  assert not part[:, 4:].any()
  for row, tokens in enumerate(part[:, :4]):
    seen = np.flatnonzero(progress.seen[row])
    assert seen.tolist() == sorted(set(tokens.tolist()))


def test_a_block_ends_when_all_rows_have():
  _, ours = prepared()
  _, free = block(ours, 9)
  end = int(free[0, 2])
  first = free[0].tolist().index(end)
  progress, tokens = block(ours, 9, end=end, done=(0, 1, 1))
  assert progress.step == first + 1 and progress.done.all()
  assert tokens[0, first] == end and not tokens[:, first + 1:].any()
  # Not before `min_steps`.
  progress, tokens = block(ours, 9, end=end, min_steps=5, done=(0, 1, 1))
  assert progress.step > 5 and end not in tokens[0, :5]


def test_cache_is_updated_in_place():
  _, ours = prepared()
  arguments = block_arguments(ours, 4)
  lowered = steps.generate_block.lower(*arguments)
  # Every part of the cache, and of the progress, is an alias of an input.
  parts = len(jax.tree.leaves(arguments[2:4]))
  assert lowered.as_text().count("tf.aliasing_output") == parts
