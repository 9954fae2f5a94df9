"""Flipped bits and cut files of whole models: our error, or the same model.

Of three things no file tells that they changed: numbers in safetensors and
GGUF, which have no checksums, and what a text says that is still well-formed
(another letter in a token, another dropout). Such a model loads, and works.
TensorFlow's checkpoints and TFRecords have checksums, and tests of their own.
"""

import dataclasses
import json
import random

import interop_fakes as fakes
import jax
import numpy as np
import pytest
from tokenizers import pre_tokenizers

import ctrl_jax
from ctrl_jax import errors
from ctrl_jax.interop import (
    gguf_file,
    hugging_face,
    hugging_face_tokenizer,
)
from ctrl_jax.text import byte_bpe, learn_bpe, score_bpe, sentencepiece

TEXTS = ["The cat sat on the mat.\n\n\tBooks; naïve \u65e5\xa0km.\n"] * 3
PROBES = [*TEXTS, "the books  are \ud800 aab", "abc\xa0\u3000 bc\n\n"]
BYTES = {t: i for i, t in enumerate(pre_tokenizers.ByteLevel.alphabet())}


def export(folder, tok, config=fakes.CTRL, **kwargs):
  """As `convert` writes one, but for the model card."""
  config = dataclasses.replace(config, vocab_size=tok.vocab_size)
  extra = dict(sequence_length=6, codes=list(tok.codes),
               prior=dict.fromkeys(tok.codes, 1.0))
  hugging_face.write(
      folder, config, fakes.random_params(config), end_id=tok.end_id,
      extra=extra, **kwargs,
  )
  for name, content in hugging_face_tokenizer.files(tok).items():
    (folder / name).write_bytes(content)


def remove(folder, *names):
  for name in names:
    (folder / name).unlink()


def release(folder):
  """In several files, with the tokenizer's as Salesforce keeps them."""
  export(folder, learn_bpe.train(TEXTS, ["Cats"], 40), shard_bytes=2000)
  remove(folder, "vocab.json", "merges.txt")


def hub(folder):
  """The tokenizer's as Hugging Face keeps them, nothing of ours."""
  export(folder, learn_bpe.train(TEXTS, [], 40))
  remove(folder, "codes", "vocab", "tokenizer_config.json", "ctrl_jax.json")


def gpt2(folder):
  tok = byte_bpe.ByteBPE(BYTES | {"th": 256, "the": 257}, ["t h", "th e"])
  export(folder, tok, fakes.GPT2)


def ours(folder):
  export(folder, sentencepiece.train(TEXTS, ["Cats"], vocab_size=115))
  remove(folder, "tokenizer.json")


def fast(folder):
  """`tokenizer.json` alone, as transformers leaves it."""
  export(folder, sentencepiece.train(TEXTS, [], vocab_size=110))
  remove(folder, "sentencepiece.model", "ctrl_jax.json")
  file = folder / "tokenizer_config.json"
  config = json.loads(file.read_text())
  file.write_text(json.dumps({"eos_token": config["eos_token"]}))


def scores(folder):
  """Llama's own tokenizer in our file."""
  tok = score_bpe.ScoreBPE(
      fakes.PIECES, fakes.SCORES, fakes.KINDS, begin_id=1, end_id=2,
      space_in_front=True,
  )
  export(folder, tok, fakes.LLAMA)
  remove(folder, "tokenizer.json")


def gguf(folder):
  pytest.importorskip("gguf")
  config = dataclasses.replace(fakes.LLAMA, vocab_size=len(fakes.PIECES))
  said = dict(model="llama", tokens=fakes.PIECES, scores=fakes.SCORES,
              token_type=fakes.KINDS, bos_token_id=1, eos_token_id=2)
  fakes.write_gguf(
      folder / "model.gguf", config, fakes.random_params(config),
      fields={f"tokenizer.ggml.{k}": v for k, v in said.items()},
  )


def answers(folder):
  """What a model and its tokenizer are, as far as they can be compared."""
  gguf_file._read.cache_clear()  # A file may change within a clock's tick.
  model = ctrl_jax.load(folder)
  tok = model.tokenizer
  ids = [tok.encode(text) for text in PROBES]
  for i in (*ids, range(tok.vocab_size)):
    tok.decode(i).encode("utf-8")
  leaves, tree = jax.tree.flatten(model.params)
  assert all(np.isfinite(x).all() for x in leaves)
  return (
      model.config, model.prior, model.codes, model.window, ids, tree,
      tok.end_id, tok.begin_ids, tok.unknown_id, dict(tok.code_words),
      [x.tobytes() for x in leaves],
  )


def strict_bytes(file, content):
  """How many of a file's first bytes cannot change the model's meaning."""
  if file.suffix == ".safetensors":
    return 8 + int.from_bytes(content[:8], "little")
  return len(content) if file.name.endswith(".index.json") else 0


def damage(draw, content):
  """Returns damaged content, the place, and whether it was cut there."""
  # As often in the first bytes, where headers are.
  at = draw.randrange(draw.choice([len(content), min(len(content), 400)]))
  if draw.random() < 1 / 3:
    return content[:at], at, True
  broken = bytearray(content)
  broken[at] ^= 1 << draw.randrange(8)
  return bytes(broken), at, False


@pytest.mark.parametrize(
    "seed, rounds",
    [(0, 16), *(pytest.param(seed, 300, marks=pytest.mark.slow)
                for seed in (1, 2))],
)
@pytest.mark.parametrize(
    "make", [release, hub, gpt2, ours, fast, scores, gguf]
)
def test_damaged_files(tmp_path, make, seed, rounds):
  make(tmp_path)
  whole, draw = answers(tmp_path), random.Random(seed)
  files = [f for f in sorted(tmp_path.iterdir())
           if f.name != "generation_config.json"]  # transformers' alone.
  refused = 0
  for _ in range(rounds):
    file = draw.choice(files)
    content = file.read_bytes()
    broken, at, cut = damage(draw, content)
    file.write_bytes(broken)
    try:
      found = answers(tmp_path)
    except errors.UserError as e:
      assert "\n" not in str(e)
      refused += 1
    else:
      if cut or at < strict_bytes(file, content):
        assert found == whole, (file.name, at, cut)
    file.write_bytes(content)
  assert refused >= rounds / 4
