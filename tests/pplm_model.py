"""A small model of words, for tests of PPLM."""

import jax

from ctrl_jax.language_model import LanguageModel
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig

WORDS = ("a the river bank law judge court apple pear plum fig runs falls sees"
         " and of").split()


class Words:
  """Words as tokens, `x-y` as two; a code and the end follow."""

  codes = ("Books",)
  begin_ids = ()
  vocab_size = len(WORDS) + 2
  end_id = len(WORDS) + 1
  unknown_id = None
  code_words = {"Books": len(WORDS)}
  tokens = [*WORDS, "Books", "<end>"]
  reserved_ids = frozenset({len(WORDS)})

  def encode(self, text):
    return [WORDS.index(w) for w in text.replace("-", " ").split()]

  def decode(self, ids):
    return "".join(f" {WORDS[i]}" for i in ids if i < len(WORDS))

  def code_ids(self, code):
    return [self.code_words[code]]


CONFIG = TransformerConfig(
    vocab_size=Words.vocab_size, d_model=16, d_ff=32, num_layers=2,
    num_heads=2, max_length=24, dtype="float32", tied_head=False,
)


def make_model():
  """Returns a random model whose logits are far from uniform."""
  params = transformer.init(CONFIG, jax.random.key(0))
  # Far enough from uniform for gradients, near enough for every word.
  head = dict(params["head"], table=params["head"]["table"] * 6)
  params = params | {"head": head}
  return LanguageModel(CONFIG, params, tokenizer=Words())
