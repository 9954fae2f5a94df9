"""One small data set for all tests of this folder."""

import json
import random
import shutil

import pytest

from ctrl_jax import config, prepare

WORDS = "the cat sat on a mat while dogs ran far away from old trees".split()


def sentence(rng, size):
  return " ".join(rng.choices(WORDS, k=size)).capitalize() + "."


def make_config(folder, **data):
  """Writes inputs beside `folder` and returns a configuration over them.

  Two ordinary domains of different sizes, and pairs with a target.
  """
  rng = random.Random(0)
  inputs = folder.parent / "inputs"
  inputs.mkdir(exist_ok=True)
  (inputs / "big.txt").write_text(
      "".join(sentence(rng, 30) + "\n\n" for _ in range(400))
  )
  (inputs / "small.jsonl").write_text(
      "".join(
          json.dumps({"id": i, "text": sentence(rng, 20)}) + "\n"
          for i in range(100)
      )
      # A duplicate within the source, one across sources, and empty ones.
      + json.dumps({"id": 0, "text": "Same old text."}) + "\n"
      + json.dumps({"id": 0, "text": "Same old text."}) + "\n"
      + json.dumps({"id": "", "text": " "}) + "\n"
  )
  (inputs / "pairs.csv").write_text(
      "q,a\n"
      + "".join(f"{sentence(rng, 4)},{sentence(rng, 2)}\n" for _ in range(60))
      + "Only \u4e2d \u4e2d \u4e2d.,bad\n"
  )
  c = config.default()
  c.data.folder = str(folder)
  c.data.sources = (
      config.source(
          "text", "Books", path=str(inputs / "big.txt"), piece_chars=100
      ),
      config.source(
          "jsonl",
          "Reddit r/cats",
          path=str(inputs / "small.jsonl"),
          template="{text}",
          weight=2.0,
      ),
      config.source(
          "csv",
          "Questions",
          path=str(inputs / "pairs.csv"),
          template="Q: {q} A:",
          target=" {a}",
      ),
  )
  c.data.sequence_length = 16
  c.data.workers = 1
  c.data.validation_fraction = 0.1
  c.data.test_fraction = 0.1
  c.tokenizer.vocab_size = 140
  c.data.update(data)
  return c


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
  """Returns (configuration, manifest) of the small data set."""
  c = make_config(tmp_path_factory.mktemp("data") / "set")
  return c, prepare.prepare(c)


@pytest.fixture
def copied(prepared, tmp_path):
  """A copy of the small data set's folder, to damage."""
  return shutil.copytree(prepared[1].folder, tmp_path / "copy")


@pytest.fixture
def flipped(copied):
  """The training shard of such a copy, 200 bytes of it flipped."""
  [shard] = copied.glob("*train.array_record*")
  content = bytearray(shard.read_bytes())
  for i in range(len(content) // 3, len(content) // 3 + 200):
    content[i] ^= 1
  shard.write_bytes(content)
  return shard
