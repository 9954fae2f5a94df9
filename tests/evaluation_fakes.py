"""A tiny model with a real tokenizer, in folders like those of the commands."""

import functools
import gzip
import json
import sys
import types

import jax
import numpy as np

from ctrl_jax import training
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.interop import assemble, hugging_face
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.text import sentencepiece

CODES = ("Cats", "Dogs", "Big r/birds")
WORDS = {
    "Cats": "cat purr meow whisker kitten",
    "Dogs": "dog bark woof leash puppy",
    "Big r/birds": "bird sing wing nest feather",
}
PRIOR = {"Cats": 0.7, "Dogs": 0.2, "Big r/birds": 0.1}


@functools.cache
def tokenizer():
  texts = list(WORDS.values()) * 3
  return sentencepiece.train(texts, CODES, vocab_size=120)


def config(**changes):
  fields = dict(
      vocab_size=tokenizer().vocab_size, d_model=16, d_ff=24, num_layers=2,
      num_heads=2, max_length=16, embedding_init=0.5,
  )
  return TransformerConfig(**fields | changes)


@functools.cache
def params(seed=0):
  """Random parameters far from uniform predictions."""
  abstract = jax.eval_shape(
      lambda k: transformer.init(config(), k), jax.random.key(0)
  )
  rng = np.random.default_rng(seed)
  return jax.tree.map(
      lambda x: (0.4 * rng.normal(size=x.shape)).astype(np.float32), abstract
  )


@functools.partial(jax.jit, static_argnums=0)
def logits(c, p, ids):
  """Logits in one piece."""
  return transformer.head(c, p, transformer.hidden_states(c, p, ids))


def plain_log_prob(ids, first):
  """Sum of log p of ids[first:] under `params()`, the simple way."""
  # Padded to one length: one function is compiled.
  inputs = np.zeros((1, config().max_length), np.int32)
  inputs[0, : len(ids) - 1] = ids[:-1]
  x = np.float64(logits(config(), params(), inputs))[0]
  log_p = x - np.log(np.exp(x).sum(-1, keepdims=True))
  return sum(log_p[i - 1, ids[i]] for i in range(first, len(ids)))


def document(code, num_words, seed=0):
  rng = np.random.default_rng(seed)
  return " ".join(rng.choice(WORDS[code].split(), num_words))


def write_dataset(folder, documents=6):
  """A prepared data set, as far as `evaluate` reads it."""
  (folder / "documents").mkdir(parents=True)
  tokenizer().save(folder / "tokenizer")
  for i, split in enumerate(("train", "validation", "test")):
    with gzip.open(
        folder / "documents" / f"{split}.jsonl.gz", "wt", encoding="utf-8"
    ) as f:
      for code in CODES:
        for j in range(documents):
          text = document(code, 12, seed=100 * i + j)
          f.write(json.dumps(dict(code=code, text=text)) + "\n")
  manifest = Manifest(
      folder=folder, sequence_length=16, vocab_size=tokenizer().vocab_size,
      tokenizer_hash=tokenizer().hash, codes=CODES, prior=PRIOR, sources=(),
      hash="0123", seed=0, config={}, files={},
  )
  manifest.save()
  return manifest


def write_export(folder, **extra):
  folder.mkdir()
  tokenizer().save(folder)
  hugging_face.write(folder, config(), params(), extra=extra)


def write_workdir(folder, monkeypatch, dataset="", state=None):
  """A workdir whose checkpoint is `params()`, or another `state`.

  With a `monkeypatch` only seemingly so: Orbax takes seconds.
  """
  folder.mkdir()
  tokenizer().save(folder / "tokenizer")
  c = config()
  model = {
      f: getattr(c, f) for f in c.__dataclass_fields__ if f != "vocab_size"
  }
  (folder / "config.json").write_text(json.dumps(dict(
      vocab_size=c.vocab_size, model=model, data=dict(folder=str(dataset))
  )))
  manifest = dict(codes=CODES, prior=PRIOR, sequence_length=16)
  (folder / "manifest.json").write_text(json.dumps(manifest))
  if monkeypatch is None:
    from ctrl_jax.training import checkpoint_manager

    checkpoints = checkpoint_manager.Checkpoints(folder)
    state = state or {"params": jax.device_put(params())}
    checkpoints.save(3, state, 0.0)
    checkpoints.close()
    return
  fake = types.ModuleType("ctrl_jax.training.checkpoint")
  fake.load_params = lambda workdir, step=None: params()
  fake.StoredParams = lambda workdir: assemble.Tree(params())
  monkeypatch.setitem(sys.modules, fake.__name__, fake)
  monkeypatch.setattr(training, "checkpoint", fake, raising=False)
