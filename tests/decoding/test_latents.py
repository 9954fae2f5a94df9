import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax.decoding.generator import Generator, Row
from ctrl_jax.decoding.options import GenerationOptions
from ctrl_jax.models import auxiliary, cvae, injections, transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae_config import CVAEConfig

slow = pytest.mark.slow

CTRL = TransformerConfig(
    vocab_size=29, d_model=16, d_ff=32, num_layers=2, num_heads=2,
    max_length=32, dtype="float32", vocab_multiple=8, scan_layers=False,
)
GPT2 = dataclasses.replace(
    CTRL, positions="learned", activation="gelu_tanh", head_bias=False,
    scale_embedding=False, layer_norm_epsilon=1e-5, scan_layers=True,
)
LLAMA = dataclasses.replace(
    CTRL, positions="rotary", activation="swiglu", norm="rms", biases=False,
    head_bias=False, scale_embedding=False, num_kv_heads=1,
)
ALL = injections.NAMES
# Each injection once; the rest is slow.
EACH = ("all", "auxiliary", "source")
CASES = {
    "all": (CTRL, ALL),
    "input": (CTRL, ("input",)),
    "keys": (CTRL, ("pseudo_self_attention",)),
    "memory": (CTRL, ("memory",)),
    "logits": (CTRL, ("softmax",)),
    "auxiliary": (CTRL, ("auxiliary", "input")),
    "source": (CTRL, ("encoder_sequence",)),
    "source, scanned": (GPT2, ("encoder_sequence",)),
    "scanned": (GPT2, ALL),
    "llama": (LLAMA, ALL),
}
PROMPTS = [[3, 1, 4], [1, 5, 9, 2, 6, 5], [8]]
Z = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
# Other prompts than those that are continued, as long as M=6 lets them.
SOURCE = np.array(
    [[2, 7, 1, 0, 0, 0, 0], [6, 8, 2, 8, 1, 8, 2], [1, 9, 0, 0, 0, 0, 0]],
    np.int32,
)


@functools.cache
def make(name):
  base, injections = CASES[name]
  fields = {}
  if "auxiliary" in injections:
    fields["auxiliary"] = auxiliary.AuxiliaryConfig(
        base, attribute_length=1, reused_layers=1, d_model=8, d_ff=16,
        num_layers=1, num_heads=2, latent_size=4,
    )
  if "encoder_sequence" in injections:
    fields |= dict(prior="none", source_length=6)
  config = CVAEConfig(base, 1, 4, injections=injections, **fields)
  boxed = transformer.init_boxed(base, jax.random.key(0))
  own = nn.unbox(cvae.init_boxed(config, boxed, jax.random.key(1)))
  keys = iter(jax.random.split(jax.random.key(2), 200))
  own = jax.tree.map(
      lambda x: x + 0.5 * jax.random.normal(next(keys), x.shape), own
  )
  if "softmax" in own:  # Or it would decide alone.
    own["softmax"] = jax.tree.map(lambda x: 0.1 * x, own["softmax"])
  base_params = nn.unbox(boxed)
  generator = Generator(base, base_params)
  generator.set_latent(config, own)
  return generator, config, base_params, own


def rows_of(name):
  return SOURCE if "source" in name else Z


def whole_logits(name, own, base, ids, row=None):
  """Logits of texts, or of one, without any cache."""
  config = make(name)[1]
  rows = slice(None) if row is None else slice(row, row + 1)
  if "source" not in name:
    return cvae.logits(config, own, base, ids, Z[rows])
  lengths = SOURCE[rows, 0]
  injection = cvae.read_source(
      config, own, base, SOURCE[rows, 1 : 1 + lengths.max()], lengths
  )
  hidden = cvae.hidden_states(config, own, base, injection, ids)
  return transformer.head(config.base, base, hidden)


def run(name, places=(0, 1, 2), latents=(), samples=1, weighted=(), **options):
  generator = make(name)[0]
  if isinstance(latents, tuple):
    latents = rows_of(name)
  rows = [
      Row(
          list(PROMPTS[i]), 0, (i, sample), attributes=((),) * len(weighted),
          latent=() if latents is None else tuple(latents[i].tolist()),
      )
      for i in places for sample in range(samples)
  ]
  options = dict(max_new_tokens=9, penalty=1.0) | options
  generator.run(rows, GenerationOptions(**options), weighted=weighted)
  return [row.ids for row in rows]


@pytest.mark.parametrize("name", EACH)
def test_cached_in_a_batch_of_mixed_lengths_equals_neither(name):
  """Greedy tokens, against logits without caches or padding in front."""
  _, _, base, own = make(name)
  found = run(name, max_new_tokens=4)
  text = np.zeros((3, 10), np.int32)
  for row, prompt, ids in zip(text, PROMPTS, found):
    row[: len(prompt) + 4] = prompt + ids
  logits = jax.jit(functools.partial(whole_logits, name))(own, base, text)
  for at, prompt, ids in zip(np.asarray(logits), PROMPTS, found):
    for n, token in enumerate(ids, len(prompt) - 1):
      assert at[n, token] > at[n].max() - 1e-3, (name, prompt, n)
  others = np.roll(rows_of(name), 1, axis=0)
  assert run(name, latents=others, max_new_tokens=4) != found


@slow
@pytest.mark.parametrize("name", CASES)
def test_cached_and_batched_equals_neither(name):
  """Greedy tokens of a batch of mixed lengths, each checked without caches."""
  _, _, base, own = make(name)
  logits = jax.jit(functools.partial(whole_logits, name), static_argnums=3)
  for row, (prompt, ids) in enumerate(zip(PROMPTS, run(name))):
    text = np.zeros((1, 16), np.int32)
    text[0, : len(prompt) + 9] = prompt + ids
    found = np.asarray(logits(own, base, jnp.asarray(text), row))[0]
    for n, token in enumerate(ids):
      at = found[len(prompt) + n - 1]
      assert at[token] > at.max() - 1e-3, (name, row, n)
  assert run(name) != run(name, latents=None)


@slow
@pytest.mark.parametrize("name", ["keys", "auxiliary", "source", "llama"])
def test_one_by_one_and_in_blocks_of_any_size(name):
  whole = run(name)
  assert run(name, block_size=2) == whole
  for i in range(3):
    assert run(name, (i,)) == whole[i:i + 1]
  assert run(name, samples=2)[::2] == whole


@slow
def test_without_a_latent_it_is_the_base():
  _, config, base, _ = make("keys")
  rows = [Row(list(p), 0, (i, 0)) for i, p in enumerate(PROMPTS)]
  Generator(config.base, base).run(
      rows, GenerationOptions(max_new_tokens=9, penalty=1.0)
  )
  assert run("keys", latents=None) == [row.ids for row in rows]


@slow
def test_equal_prompts_with_other_latents_are_read_apart():
  """Samples that share prompt and latent share the prefill; others do not."""
  latents = Z[[0, 1, 0]]
  same = [PROMPTS[0]] * 3
  generator = make("keys")[0]
  rows = [
      Row(list(p), 0, (i, 0), latent=tuple(z.tolist()))
      for i, (p, z) in enumerate(zip(same, latents))
  ]
  generator.run(rows, GenerationOptions(max_new_tokens=9, penalty=1.0))
  assert rows[0].ids == rows[2].ids != rows[1].ids
  assert rows[0].ids == run("keys")[0]
  both = run("keys", samples=2)
  assert both[::2] == both[1::2] == run("keys")


@slow
def test_past_the_window_the_latent_stays():
  """The prompt is read again, the extra key with it."""
  _, config, base, own = make("keys")
  ids = run("keys", (1,), max_new_tokens=40, stride=8)[0]
  text = (PROMPTS[1] + ids)
  # 8 tokens are gone once 33 would be seen, 16 from the 41st on.
  shown = jnp.asarray([text[16:45]])
  logits = cvae.logits(config, own, base, shown, Z[1:2])[0, -1]
  assert logits[text[45]] > logits.max() - 1e-3


@slow
def test_beside_an_auxiliary():
  """One run of base, auxiliary and latent: their logits add up."""
  generator, config, base, own = make("logits")
  head = auxiliary.AuxiliaryConfig(
      CTRL, "independent", attribute_length=2, d_model=8, d_ff=16, num_layers=1,
      num_heads=2,
  )
  params = nn.unbox(head.init_boxed(jax.random.key(4)))
  params["final_norm"] = jax.tree.map(
      lambda x: x + 2.0, params["final_norm"]
  )
  generator.add_head("aux", head, params)
  found = run("logits", (0,), weighted=[("aux", 1.0)])[0]
  text = jnp.asarray([PROMPTS[0] + found])
  extra = head.output(
      params, base, text, (), jnp.zeros((1, 2), jnp.int32),
      jnp.zeros(1, jnp.int32),
  )
  logits = cvae.logits(config, own, base, text, Z[:1])
  logits = (logits + (extra.hidden @ extra.table.T)[..., :29])[0, 2:-1]
  assert len(logits) == len(found)
  for at, token in zip(logits, found):
    assert at[token] > at.max() - 1e-3
  assert found != run("logits", (0,))[0]
