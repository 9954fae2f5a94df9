"""Tiny models and a tokenizer of characters, shared by the tests."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax import errors
from ctrl_jax.decoding import generator as generator_lib
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig


class Characters:
  """Bytes as tokens; `codes` and the end follow, the unknown token is last."""

  codes = ("Books", "Legal")
  begin_ids = ()
  vocab_size = 132
  end_id = 130
  unknown_id = 131
  code_words = {"Books": 128, "Legal": 129}
  tokens = [*map(chr, range(128)), "Books", "Legal", "<end>", "<unk>"]
  reserved_ids = frozenset({128, 129})

  def encode(self, text):
    return [min(b, 127) for b in text.encode()]

  def decode(self, ids):
    return bytes(i for i in ids if i < 128).decode("utf-8", "replace")

  def code_ids(self, code):
    if code not in self.code_words:
      raise errors.UserError(
          f"Unknown control code {code!r}. {errors.nearest(code, self.codes)}"
      )
    return [self.code_words[code]]


CONFIG = TransformerConfig(
    vocab_size=Characters.vocab_size, d_model=32, d_ff=64, num_layers=2,
    num_heads=4, max_length=24, dtype="float32", vocab_multiple=8,
)
GPT2 = dataclasses.replace(
    CONFIG, positions="learned", activation="gelu_tanh", head_bias=False,
    scale_embedding=False, layer_norm_epsilon=1e-5, scan_layers=True,
)


LLAMA = dataclasses.replace(
    CONFIG, positions="rotary", activation="swiglu", norm="rms", num_kv_heads=2,
    biases=False, head_bias=False, scale_embedding=False, tied_head=False,
    scan_layers=False,
)


@functools.cache
def model(config=CONFIG):
  """Returns a generator and its parameters, scaled so that choices vary."""
  init = jax.jit(lambda key: jax.tree.map(
      lambda x: x * 3, transformer.init(config, key)
  ))
  params = init(jax.random.key(1))
  if config.head_bias:
    bias = jax.random.normal(jax.random.key(2), (config.padded_vocab_size,))
    params["head"]["bias"] = bias
  return generator_lib.Generator(config, params), params


def constant(logits, config=CONFIG):
  """A generator whose next token has these logits whatever it reads.

  Args:
    logits: token -> its logit; all others have 0.
    config: with a bias in its head.
  """
  params = jax.tree.map(jnp.zeros_like, model(config)[1])
  bias = np.zeros(config.padded_vocab_size, np.float32)
  bias[list(logits)] = list(logits.values())
  params["head"]["bias"] = jnp.asarray(bias)
  return generator_lib.Generator(config, params)


# A distribution by hand on which every set of rules gives other tokens, greedy
# after a line end at theta 1.2: of the line end, "a" and the unknown token.
BY_HAND = {10: 3.0, 97: 2.9, 131: 2.95}
BY_HAND_TOKENS = {
    # 3 / 1.2 = 2.5 is less than 2.9; then 2.9 / 1.2 = 2.42 is less than 2.5.
    "paper": [97, 10, 10, 10],
    "release": [10, 10, 10, 10],  # A line end has no penalty.
    # The unknown token is none of the banned.
    "huggingface": [131, 97, 10, 10],
}


@functools.cache
def _logits_function(config):
  return jax.jit(transformer.Transformer(config).apply)


def plain_logits(config, params, ids):
  """The next token's logits, without cache: float32 [V]."""
  padded = np.zeros((1, config.max_length), np.int32)
  padded[0, : len(ids)] = ids
  logits = _logits_function(config)({"params": params}, jnp.asarray(padded))
  return np.asarray(logits)[0, len(ids) - 1]


def plain_greedy(config, params, prompt, steps, *, theta=1.0, show=list):
  """Greedy continuation with the paper's penalty, one forward pass a token.

  `show` chooses which of all ids so far the model sees.
  """
  ids = list(prompt)
  for _ in range(steps):
    logits = plain_logits(config, params, show(ids))
    seen = sorted(set(ids))
    logits = logits.copy()
    logits[seen] /= np.float32(theta)
    ids.append(int(logits.argmax()))
  return ids[len(prompt):]
