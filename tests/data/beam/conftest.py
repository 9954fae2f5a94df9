"""One data set of all that `prepare` tells apart, made on one machine."""

import json
import random

import pytest

from ctrl_jax import config, prepare

WORDS = "the cat sat on a mat while dogs ran far away from old trees".split()


def sentence(rng, size):
  return " ".join(rng.choices(WORDS, k=size)).capitalize() + "."


def write_lines(file, rows):
  file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_config(folder):
  """Writes inputs beside `folder` and returns a configuration over them."""
  rng = random.Random(1)
  inputs = folder.parent / "inputs"
  inputs.mkdir(exist_ok=True)
  for i in range(3):
    (inputs / f"book_{i}.txt").write_text(
        "".join(sentence(rng, 30) + "\n\n" for _ in range(150))
        + "The same in each.\n\n" * (i == 0)
    )
  texts = [sentence(rng, rng.randint(1, 60)) for _ in range(300)]
  for i in range(2):  # The second repeats a part of the first.
    write_lines(
        inputs / f"posts_{i}.jsonl",
        [{"text": t} for t in texts[100 * i : 100 * i + 200]]
        + [{"text": " "}, {"text": "Only \u4e2d \u4e2d \u4e2d \u4e2d."}],
    )
  write_lines(
      inputs / "pairs.jsonl",
      [
          dict(q=sentence(rng, 4), a=sentence(rng, rng.randint(1, 40)),
               tone=rng.choice(("calm", "wild")))
          for _ in range(200)
      ],
  )
  write_lines(inputs / "held_out.jsonl", [{"text": texts[7]}])
  c = config.default()
  c.data.folder = str(folder)
  c.data.sources = (
      # Its code has text for the samples in a later source alone.
      config.source(
          "jsonl", "Posts", path=str(inputs / "pairs.jsonl"),
          template="{a}", target=" {q}", split="test",
      ),
      config.source(
          "text", "Books", path=str(inputs / "book_*.txt"), piece_chars=100
      ),
      config.source("jsonl", "Posts", path=str(inputs / "posts_*.jsonl")),
      config.source(
          "jsonl", "Books", path=str(inputs / "pairs.jsonl"),
          template="Q: {q} A:", target=" {a}", attribute="{tone}",
      ),
      config.source(
          "jsonl", "Posts", path=str(inputs / "posts_*.jsonl"),
          template="Some: {text}", max_documents=250, split="validation",
      ),
  )
  c.data.exclude = (str(inputs / "held_out.jsonl"),)
  c.data.share = (0.0, 0.9)
  c.data.train_share = 0.8
  c.data.attribute_length = 8
  c.data.sequence_length = 16
  c.data.max_unknown = 1
  c.data.validation_fraction = 0.1
  c.data.test_fraction = 0.1
  c.data.workers = 1
  c.tokenizer.vocab_size = 140
  c.tokenizer.train_chars = 5000
  c.tokenizer.learn_from = ("Posts=0.9",)
  return c


@pytest.fixture(scope="session")
def one_machine(tmp_path_factory):
  """Returns (configuration, manifest)."""
  c = make_config(tmp_path_factory.mktemp("one_machine") / "set")
  return c, prepare.prepare(c)
