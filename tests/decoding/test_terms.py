import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax.decoding.generator import Generator, Row
from ctrl_jax.decoding.options import GenerationOptions
from ctrl_jax.models import auxiliary, transformer
from ctrl_jax.models.config import TransformerConfig

BASE = TransformerConfig(
    vocab_size=29, d_model=16, d_ff=32, num_layers=3, num_heads=2,
    max_length=32, dtype="float32", vocab_multiple=8,
)
SIZES = dict(
    attribute_length=3, d_model=8, d_ff=16, num_layers=2, num_heads=2,
    reused_layers=2,
)
SCANNED = dataclasses.replace(BASE, scan_layers=True)
LLAMA = dataclasses.replace(
    BASE, positions="rotary", activation="swiglu", norm="rms", biases=False,
    head_bias=False, scale_embedding=False, num_kv_heads=1,
)


class Recurrent(nn.Module):
  """A causal module without a cache."""

  @nn.compact
  def __call__(self, attribute, length, ids):
    embed = nn.Embed(29, 8)
    real = jnp.arange(attribute.shape[1])[None] < length[:, None]
    start = (embed(attribute) * real[..., None]).sum(1)
    states = nn.RNN(nn.GRUCell(8))(embed(ids), initial_carry=start)
    return nn.Dense(32)(states)


HEADS = {
    "feature": auxiliary.AuxiliaryConfig(BASE, "feature", **SIZES),
    "independent": auxiliary.AuxiliaryConfig(BASE, "independent", **SIZES),
    "gate": auxiliary.AuxiliaryConfig(BASE, "feature", "gate", **SIZES),
    "scanned": auxiliary.AuxiliaryConfig(SCANNED, "feature", **SIZES),
    "llama": auxiliary.AuxiliaryConfig(LLAMA, "feature", **SIZES),
    "gru": auxiliary.LinenAuxiliary(BASE, Recurrent(), 3, is_logits=True),
}
PROMPTS = [[3, 1, 4], [1, 5, 9, 2, 6, 5], [8]]
ATTRIBUTES = [(7, 9), (), (11, 2, 5)]


@functools.cache
def params_of(config, seed=1):
  """An auxiliary's parameters, moved away from its zero output."""
  params = nn.unbox(config.init_boxed(jax.random.key(seed)))
  keys = iter(jax.random.split(jax.random.key(seed + 1), 100))
  return jax.tree.map(
      lambda x: x + 0.3 * jax.random.normal(next(keys), x.shape), params
  )


def generator(*names):
  base = HEADS[names[0]].base
  made = Generator(base, transformer.init(base, jax.random.key(0)))
  for name in names:
    made.add_head(name, HEADS[name], params_of(HEADS[name]))
  return made


def run(made, weighted, prompts=PROMPTS, attributes=ATTRIBUTES, **options):
  rows = [
      Row(list(p), 0, (i, 0), attributes=(a,) * len(weighted))
      for i, (p, a) in enumerate(zip(prompts, attributes))
  ]
  options = dict(max_new_tokens=9, penalty=1.0) | options
  made.run(rows, GenerationOptions(**options), weighted=weighted)
  return [row.ids for row in rows]


@functools.partial(jax.jit, static_argnums=0)
def plain_logits(name, base, params, ids, attribute, length, weight):
  """Logits after each of `ids` [1, T], without any cache."""
  config = HEADS[name]
  hidden, taps = transformer.hidden_states_with_taps(
      config.base, base, ids, config.taps
  )
  output = config.output(params, base, ids, taps, attribute, length)
  logits = transformer.head(config.base, base, hidden)
  if output.is_logits:
    extra = output.hidden[..., :29]
  elif output.table is not None:
    extra = (output.hidden @ output.table.T)[..., :29]
  else:
    shift = config.shift(params, hidden, output.hidden)
    table = transformer.head_table(config.base, base)
    extra = (shift @ table.T)[..., :29]
  return (logits + weight * extra)[0]


@pytest.mark.parametrize("name", HEADS)
def test_cached_and_batched_equals_neither(name):
  """Greedy tokens of a batch of mixed lengths, each checked without caches."""
  found = run(generator(name), [(name, 0.7)])
  base = transformer.init(HEADS[name].base, jax.random.key(0))
  params = params_of(HEADS[name])
  for prompt, attribute, ids in zip(PROMPTS, ATTRIBUTES, found):
    # Padding behind the text: one shape for all.
    whole = np.zeros((1, 16), np.int32)
    whole[0, : len(prompt) + len(ids)] = prompt + ids
    padded = np.zeros((1, 3), np.int32)
    padded[0, : len(attribute)] = attribute
    logits = plain_logits(
        name, base, params, whole, padded, np.array([len(attribute)]), 0.7
    )
    for n, token in enumerate(ids):
      row = logits[len(prompt) + n - 1]
      assert row[token] > row.max() - 1e-3, (name, n)


@pytest.mark.parametrize("name", ["feature", "independent", "gru"])
def test_one_by_one_and_in_blocks_of_any_size(name):
  made = generator(name)
  whole = run(made, [(name, 1.0)])
  assert run(made, [(name, 1.0)], block_size=2) == whole
  for i in range(3):
    alone = run(made, [(name, 1.0)], PROMPTS[i:i + 1], ATTRIBUTES[i:i + 1])
    assert alone == whole[i:i + 1]


def test_weights():
  """Weight 0 is the base; two halves are a whole; the attribute matters."""
  made = generator("feature", "independent")
  base = run(made, [])
  assert run(made, [("feature", 0.0), ("independent", 0.0)]) == base
  one = run(made, [("feature", 1.0)])
  assert one != base
  assert run(made, [("feature", 0.5)] * 2) == one
  other = run(made, [("feature", 1.0)], attributes=[(4,), (4,), (4,)])
  assert other != one


def test_guidance_is_two_terms_of_one_head():
  """aux(none) + g (aux(a) - aux(none)): g = 1 is aux(a), g = 0 aux(none)."""
  made = generator("feature")
  options = GenerationOptions(max_new_tokens=9, penalty=1.0)

  def guided(g):
    rows = [
        Row(list(p), 0, (i, 0), attributes=(a, ()))
        for i, (p, a) in enumerate(zip(PROMPTS, ATTRIBUTES))
    ]
    made.run(rows, options, weighted=[("feature", g), ("feature", 1 - g)])
    return [row.ids for row in rows]

  assert guided(1.0) == run(made, [("feature", 1.0)])
  assert guided(0.0) == run(made, [("feature", 1.0)], attributes=[()] * 3)


def test_samples_of_one_prompt_share_its_prefill():
  made = generator("feature")
  rows = [
      Row([3, 1, 4], 0, (0, i), attributes=((7, 9),)) for i in range(3)
  ]
  made.run(
      rows, GenerationOptions(max_new_tokens=6, temperature=1.0, penalty=1.0),
      weighted=[("feature", 1.0)],
  )
  assert len({tuple(row.ids) for row in rows}) > 1
  # Another attribute is another prefill, though the prompt is the same.
  same = run(made, [("feature", 1.0)], [[3, 1, 4]] * 2, [(7, 9), (5,)])
  assert same[0] == run(made, [("feature", 1.0)], [[3, 1, 4]], [(7, 9)])[0]
  assert same[1] == run(made, [("feature", 1.0)], [[3, 1, 4]], [(5,)])[0]


def test_a_term_is_centred_before_the_penalty():
  """A term is known up to a constant, which the penalty would see."""

  class Constant(nn.Module):
    value: float

    @nn.compact
    def __call__(self, attribute, length, ids):
      del attribute, length
      nn.Embed(29, 1)(ids)
      return jnp.full((*ids.shape, 32), self.value)

  made = generator("feature")
  for value in (0.0, 50.0):
    config = auxiliary.LinenAuxiliary(BASE, Constant(value), 3, is_logits=True)
    made.add_head(str(value), config, params_of(config))
  base = run(made, [], penalty=1.5)
  assert base != run(made, [])
  assert run(made, [("0.0", 1.0)], penalty=1.5) == base
  assert run(made, [("50.0", 1.0)], penalty=1.5) == base


def test_heads_share_one_copy_of_the_base():
  made = generator("feature", "independent", "gate")
  base = {id(x) for x in jax.tree.leaves(made._params)}
  for weighted in ([("feature", 1.0)], [("gate", 1.0), ("independent", 1.0)]):
    both = made._with_terms(weighted)
    own = {id(x) for x in jax.tree.leaves(both)} - base
    terms = {
        id(x) for name, _ in weighted
        for x in jax.tree.leaves(made._heads[name])
    }
    assert own == terms
