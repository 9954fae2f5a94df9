import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax.decoding.generator import Generator, Row
from ctrl_jax.decoding.options import GenerationOptions
from ctrl_jax.models import auxiliary, side, transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.side import SideConfig

pytestmark = pytest.mark.slow

BASE = TransformerConfig(
    vocab_size=29, d_model=16, d_ff=32, num_layers=3, num_heads=2,
    max_length=32, dtype="float32", vocab_multiple=8,
)
SCANNED = dataclasses.replace(BASE, scan_layers=True)
LLAMA = dataclasses.replace(
    BASE, positions="rotary", activation="swiglu", norm="rms", biases=False,
    head_bias=False, scale_embedding=False, num_kv_heads=1,
)
SAME = dict(d_model=16, d_ff=32, num_layers=2, num_heads=2)
SIDES = {
    "same": SideConfig(BASE, **SAME),
    "narrow": SideConfig(BASE, init="random", **SAME | dict(d_model=8)),
    "sum": SideConfig(BASE, "sum", **SAME),
    "scanned": SideConfig(SCANNED, **SAME),
    "llama": SideConfig(LLAMA, **SAME),
}
PROMPTS = [[3, 1, 4], [1, 5, 9, 2, 6, 5], [8]]


def params_of(config):
  """A side's parameters, moved away from where they begin."""
  params = nn.unbox(config.init_boxed(jax.random.key(1)))
  keys = iter(jax.random.split(jax.random.key(2), 100))
  return jax.tree.map(
      lambda x: x + 0.3 * jax.random.normal(next(keys), x.shape), params
  )


def generator(name):
  config = SIDES[name]
  made = Generator(
      config.base, transformer.init(config.base, jax.random.key(0))
  )
  made.add_head(name, config, params_of(config))
  return made


def run(made, weighted, prompts=PROMPTS, **options):
  rows = [
      Row(list(p), 0, (i, 0), attributes=((),) * len(weighted))
      for i, p in enumerate(prompts)
  ]
  options = dict(max_new_tokens=9, penalty=1.0) | options
  made.run(rows, GenerationOptions(**options), weighted=weighted)
  return [row.ids for row in rows]


def plain_logits(config, ids, weight):
  """Logits after the last of `ids`, without any cache."""
  base = transformer.init(config.base, jax.random.key(0))
  params = params_of(config)
  ids = jnp.asarray([ids])
  hidden = transformer.hidden_states(config.base, base, ids)
  other = side.hidden_states(config, params, base, ids)
  shift = side.shift(config, params, hidden, other)
  logits = transformer.head(config.base, base, hidden + weight * shift)
  return np.asarray(logits)[0, -1]


@pytest.mark.parametrize("name", SIDES)
def test_cached_and_batched_equals_neither(name):
  for weight in (1.0, 0.6):
    found = run(generator(name), [(name, weight)])
    for prompt, ids in zip(PROMPTS, found):
      for n, token in enumerate(ids):
        logits = plain_logits(SIDES[name], prompt + ids[:n], weight)
        assert logits[token] > logits.max() - 1e-3, (name, n)


def test_weight_0_is_the_base():
  made = generator("same")
  base = run(made, [])
  assert run(made, [("same", 0.0)]) == base
  assert run(made, [("same", 1.0)]) != base


def test_one_by_one_in_blocks_and_several_samples():
  made = generator("narrow")
  whole = run(made, [("narrow", 1.0)])
  assert run(made, [("narrow", 1.0)], block_size=2) == whole
  for i in range(3):
    assert run(made, [("narrow", 1.0)], PROMPTS[i:i + 1]) == whole[i:i + 1]
  rows = [Row([3, 1, 4], 0, (0, i), attributes=((),)) for i in range(3)]
  made.run(
      rows, GenerationOptions(max_new_tokens=6, temperature=1.0, penalty=1.0),
      weighted=[("narrow", 1.0)],
  )
  assert len({tuple(row.ids) for row in rows}) > 1


def test_beside_an_auxiliary():
  """Both shares are added: with one at weight 0 the other remains."""
  made = generator("same")
  head = auxiliary.AuxiliaryConfig(
      BASE, attribute_length=3, d_model=8, d_ff=16, num_layers=1, num_heads=2
  )
  made.add_head("feature", head, params_of(head))
  alone = run(made, [("same", 1.0)])
  rows = lambda: [
      Row(list(p), 0, (i, 0), attributes=((), (7,)))
      for i, p in enumerate(PROMPTS)
  ]
  options = GenerationOptions(max_new_tokens=9, penalty=1.0)
  found = {}
  for weight in (0.0, 1.0):
    found[weight] = rows()
    made.run(
        found[weight], options, weighted=[("same", 1.0), ("feature", weight)]
    )
  assert [row.ids for row in found[0.0]] == alone
  assert [row.ids for row in found[1.0]] != alone
