"""Which vectors are probed, and with which texts; models are replaced."""

import types

import numpy as np
import pytest

from ctrl_jax.evaluation.held_out import Texts
from ctrl_jax.experiments import cvae_labels

WORDS = {1: "red", 2: "blue", 3: "door", 0: ""}


def texts(count):
  """Alternately "red door" and "blue door", their ends included."""
  kinds = np.arange(count) % 2
  tokens = np.stack([[1 + k, 3, 9] for k in kinds])
  return Texts(tokens, np.ones_like(tokens), tuple("ab"[k] for k in kinds))


@pytest.fixture
def found(monkeypatch):
  """What is measured, where latents tell labels and states nothing."""
  asked = []

  def of_sources(sources, data, tokenizer, split, *, label, max_texts):
    asked.append((split, label, max_texts))
    return texts(max_texts)

  def encode(task, params, batches, seed):
    firsts = np.concatenate([
        b["tokens"][b["weights"].any(1)][:, 0] for b in batches
    ])
    return types.SimpleNamespace(mean=np.stack([firsts, 0 * firsts], 1) * 5.0)

  monkeypatch.setattr(cvae_labels.held_out, "sources_of", lambda data: ())
  monkeypatch.setattr(cvae_labels.held_out, "of_sources", of_sources)
  monkeypatch.setattr(cvae_labels.latent, "of_model", lambda model: (0, 0))
  monkeypatch.setattr(cvae_labels.latent, "encode", encode)
  monkeypatch.setattr(
      cvae_labels.text_vectors, "mean_states",
      lambda base, texts: np.zeros((len(texts.tokens), 2)),
  )
  tokenizer = types.SimpleNamespace(
      end_id=9, decode=lambda ids: " ".join(WORDS[i] for i in ids)
  )
  model = types.SimpleNamespace(
      tokenizer=tokenizer,
      cvae=types.SimpleNamespace(config=types.SimpleNamespace(latent_size=1)),
  )
  measured = cvae_labels.measure(
      model, "base", "data", "{topic}", train_texts=40, test_texts=10, seed=0
  )
  return asked, *measured


def test_all_vectors_are_of_the_same_texts(found):
  asked, measured, encoded, labels = found
  assert asked == [("train", "{topic}", 40), ("test", "{topic}", 10)]
  assert list(measured) == ["latent", "base_states", "lsa", "tf_idf"]
  assert labels == tuple("ababababab") and len(encoded.mean) == 10


def test_labels_are_told_by_what_knows_them(found):
  measured = found[1]
  assert measured["latent"]["knn"]["value"] == 1
  assert measured["tf_idf"]["value"] == 1
  assert measured["base_states"]["linear"]["value"] == 0.5
