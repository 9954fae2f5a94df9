"""Ids from ids: the cache against plain passes, rows against each other."""

import dataclasses

import jax
import numpy as np
import pytest
from decoding_fakes import (
    CONFIG,
    GPT2,
    LLAMA,
    constant,
    model,
    plain_greedy,
    plain_logits,
)

from ctrl_jax import errors
from ctrl_jax.decoding import generator as generator_lib
from ctrl_jax.decoding import window
from ctrl_jax.decoding.options import GenerationOptions

ALL = pytest.mark.parametrize(
    "config", [CONFIG, GPT2, LLAMA], ids=["ctrl", "gpt2", "llama"]
)
PROMPTS = [[128, 5, 9, 5], [129], [128, 77, 3, 2, 1, 90, 41]]


def run(prompts, config=CONFIG, num_code=1, banned=None, end_id=None,
        on_block=None, **options):
  """Ids generated after each prompt, a list a sample."""
  options = {"max_new_tokens": 12} | options
  options = GenerationOptions(**options)
  rows = [
      generator_lib.Row(list(p), num_code, (i, sample))
      for i, p in enumerate(prompts) for sample in range(options.num_samples)
  ]
  generator, _ = model(config)
  generator.run(
      rows, options, banned=banned, end_id=end_id, on_block=on_block
  )
  return rows


def ids(rows):
  return [row.ids for row in rows]


@ALL
def test_batch_with_cache_equals_plain_passes(config):
  _, params = model(config)
  expected = [plain_greedy(config, params, p, 12, theta=1.2) for p in PROMPTS]
  assert ids(run(PROMPTS, config)) == expected
  assert [ids(run([p], config))[0] for p in PROMPTS] == expected
  assert len({token for row in expected for token in row}) > 3


@ALL
def test_next_logits_equal_plain_passes(config):
  generator, params = model(config)
  got = generator.next_logits(PROMPTS)
  expected = np.stack([plain_logits(config, params, p) for p in PROMPTS])
  assert got.shape == (3, config.vocab_size)
  np.testing.assert_allclose(got, expected, rtol=1e-5, atol=3e-5)


def test_scanned_layers_equal_unrolled_ones():
  scanned = dataclasses.replace(CONFIG, scan_layers=True)
  for options in ({}, dict(temperature=1.0, num_samples=2)):
    assert ids(run(PROMPTS, scanned, **options)) == ids(run(PROMPTS, **options))


@pytest.mark.parametrize(
    "options",
    [
        dict(temperature=1.0, top_k=60, top_p=0.9, seed=3),
        dict(),
    ],
)
def test_block_and_batch_size_change_nothing(options):
  expected = ids(run(PROMPTS, num_samples=2, **options))
  for sizes in (dict(block_size=1, batch_size=4), dict(block_size=5)):
    assert ids(run(PROMPTS, num_samples=2, **sizes, **options)) == expected


def test_a_row_does_not_depend_on_its_neighbours():
  alone = ids(run(PROMPTS[:1], temperature=1.0, num_samples=2))
  together = ids(run(PROMPTS, temperature=1.0, num_samples=2))
  assert together[:2] == alone


def test_seeds_samples_and_places_matter():
  def draw(**options):
    return ids(run([PROMPTS[0]] * 2, temperature=1.0, num_samples=2, **options))

  first = draw(seed=0)
  assert first == draw(seed=0)
  assert first != draw(seed=1)
  assert len({tuple(row) for row in first}) == 4


def test_low_temperature_is_greedy():
  assert ids(run(PROMPTS, temperature=1e-9)) == ids(run(PROMPTS))


def test_top_k_of_one_is_greedy():
  assert ids(run(PROMPTS, temperature=5.0, top_k=1)) == ids(run(PROMPTS))


def test_a_nucleus_beside_top_k_or_in_its_place():
  options = dict(temperature=5.0, top_p=0.9)
  assert ids(run(PROMPTS, top_k=1, **options)) == ids(run(PROMPTS))
  alone = ids(run(PROMPTS, **options))
  assert ids(run(PROMPTS, top_k=1, top_k_with_top_p=False, **options)) == alone
  greedy = run(PROMPTS, temperature=5.0, top_k=1, top_k_with_top_p=False)
  assert ids(greedy) == ids(run(PROMPTS)) != alone


def test_penalty_covers_prompt_and_result():
  _, params = model()
  for theta in (1.0, 3.0):
    assert ids(run(PROMPTS[:1], penalty=theta))[0] == plain_greedy(
        CONFIG, params, PROMPTS[0], 12, theta=theta
    )
  assert ids(run(PROMPTS, penalty=3.0)) != ids(run(PROMPTS, penalty=1.0))


@pytest.mark.parametrize(
    "covers, expected",
    [
        # 4 / 2 is less than 3.9, and 3.9 / 2 less than 4 / 2.
        ("all", [6, 5, 5, 5]),
        ("generated", [5, 6, 5, 5]),
    ],
)
@pytest.mark.parametrize("num_code", [0, 1])
def test_what_the_penalty_covers(covers, expected, num_code):
  """The prompt, code included, and the result; or the result alone."""
  row = generator_lib.Row([5], num_code, (0, 0))
  constant({5: 4.0, 6: 3.9}).run(
      [row],
      GenerationOptions(max_new_tokens=4, penalty=2.0, penalty_covers=covers),
  )
  assert row.ids == expected


def test_end_symbol_and_minimum_length():
  free = ids(run(PROMPTS))
  end = free[0][2]
  rows = run(PROMPTS, end_id=end)
  assert rows[0].finished == "end"
  assert rows[0].ids == free[0][:free[0].index(end)]
  for row, alone in zip(rows[1:], free[1:]):
    assert row.ids == (alone[:alone.index(end)] if end in alone else alone)
  longer = run(PROMPTS, end_id=end, min_new_tokens=6)[0]
  assert len(longer.ids) >= 6 and end not in longer.ids
  through = run(PROMPTS, end_id=end, stop_at_end=False)
  assert ids(through) == free
  assert {row.finished for row in through} == {"length"}


def test_banned_tokens_never_come():
  banned = np.zeros(CONFIG.vocab_size, bool)
  banned[sorted({token for row in ids(run(PROMPTS)) for token in row})] = True
  for options in ({}, dict(temperature=2.0, num_samples=4)):
    for row in run(PROMPTS, banned=banned, **options):
      assert not banned[row.ids].any()
  # One that is in the prompt is fine.
  banned[PROMPTS[0]] = True
  run(PROMPTS, banned=banned)
  with pytest.raises(errors.UserError, match="banned"):
    run(PROMPTS, banned=np.ones(CONFIG.vocab_size, bool))


def test_the_end_alone_is_no_first_token_where_some_are_wanted():
  banned = np.arange(CONFIG.vocab_size) != 7
  assert ids(run(PROMPTS, banned=banned, end_id=7)) == [[], [], []]
  with pytest.raises(errors.UserError, match="min_new_tokens=2"):
    run(PROMPTS, banned=banned, end_id=7, min_new_tokens=2)


def test_window_of_stride_one_equals_plain_passes():
  _, params = model()
  long = [128, *range(30)]
  prompts = [long, PROMPTS[0], [128, 7]]

  def show(ids):
    size = CONFIG.max_length
    return ids if len(ids) <= size else [ids[0], *ids[1 - size:]]

  expected = [
      plain_greedy(CONFIG, params, p, 30, theta=1.2, show=show)
      for p in prompts
  ]
  assert ids(run(prompts, stride=1, max_new_tokens=30)) == expected


def test_a_window_smaller_than_the_models():
  _, params = model()
  prompts = [[128, *range(30)], PROMPTS[0], [128, 7]]
  show = lambda ids: ids if len(ids) <= 10 else [ids[0], *ids[-9:]]
  expected = [
      plain_greedy(CONFIG, params, p, 15, theta=1.2, show=show)
      for p in prompts
  ]
  options = dict(stride=1, max_new_tokens=15)
  assert ids(run(prompts, window=10, **options)) == expected
  whole = ids(run(prompts, **options))
  assert whole != expected
  assert ids(run(prompts, window=256, **options)) == whole


@pytest.mark.parametrize("stride", [0, 23])
def test_window_of_larger_stride(stride):
  _, params = model()
  prompts = [[128, *range(30)], PROMPTS[0]]
  size = CONFIG.max_length

  def show(ids):
    return window.visible(ids, 1, size, stride or size // 4)

  expected = [
      plain_greedy(CONFIG, params, p, 40, theta=1.2, show=show)
      for p in prompts
  ]
  options = dict(stride=stride, max_new_tokens=40)
  assert ids(run(prompts, **options)) == expected
  assert ids(run(prompts, block_size=7, **options)) == expected
  assert ids(run(prompts[1:], **options)) == expected[1:]


def test_continued_later_equals_uninterrupted():
  prompt = [128, *range(20)]
  whole = ids(run([prompt], max_new_tokens=30))[0]
  rest = ids(run([prompt + whole[:13]], max_new_tokens=17))[0]
  assert whole == whole[:13] + rest


def test_similar_requests_share_compiled_functions():
  compiled = generator_lib.steps.generate_block
  run(PROMPTS, temperature=1.0, top_p=0.9)
  before = compiled._cache_size()
  run([[1], [2, 3], [4]], temperature=0.5, top_p=0.5, penalty=1.5, seed=9,
      max_new_tokens=10)
  assert compiled._cache_size() == before


def test_broken_parameters_are_an_error():
  config = CONFIG
  _, params = model()
  broken = jax.tree.map(lambda x: x, params)
  broken["final_norm"] = jax.tree.map(
      lambda x: x * np.nan, params["final_norm"]
  )
  generator = generator_lib.Generator(config, broken)
  with pytest.raises(errors.UserError, match="not finite"):
    generator.run([generator_lib.Row([1], 0, (0, 0))], GenerationOptions())


def test_nothing_to_continue_is_an_error():
  with pytest.raises(errors.UserError, match="empty"):
    run([[]])
