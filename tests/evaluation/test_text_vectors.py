import types

import jax
import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import held_out, text_vectors
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig

CONFIG = TransformerConfig(
    vocab_size=31, d_model=8, d_ff=16, num_layers=1, num_heads=2, max_length=8,
    dropout=0.0, dtype="float32",
)


def test_lsa_finds_topics_that_share_words():
  topics = ["cat dog horse cow sheep".split(), "stone river hill sea".split()]
  rng = np.random.default_rng(0)
  texts = [" ".join(rng.choice(topics[i % 2], 3)) for i in range(40)]
  train, test = text_vectors.lsa(texts[:30], texts[30:], size=2)
  assert train.shape == (30, 2) and test.shape == (10, 2)
  np.testing.assert_allclose(np.linalg.norm(train, axis=1), 1)
  nearest = (test @ train.T).argmax(1)
  np.testing.assert_array_equal(nearest % 2, np.arange(10) % 2)
  with pytest.raises(errors.UserError, match="too few words"):
    text_vectors.lsa(["cat", "dog"], ["cat"], size=9)


def test_mean_states_leave_padding_out():
  params = transformer.init(CONFIG, jax.random.key(0))
  rng = np.random.default_rng(0)
  ends = np.array([9, 4, 6])
  tokens = rng.integers(0, 31, (3, 9)).astype(np.int32)
  weights = (np.arange(9)[None] < ends[:, None]) & (np.arange(9)[None] > 0)
  texts = held_out.Texts(tokens, weights.astype(np.uint8))
  model = types.SimpleNamespace(config=CONFIG, params=params)
  found = text_vectors.mean_states(model, texts, batch_size=2)
  for row, n in enumerate(np.minimum(ends, 8)):
    alone = transformer.hidden_states(CONFIG, params, tokens[row:row + 1, :n])
    np.testing.assert_allclose(found[row], alone[0].mean(0), atol=1e-5)
