"""A tiny base and CVAEs of pairs, for tests of what uses them."""

import json

import tiny_runs

from ctrl_jax import config as config_lib
from ctrl_jax import prepare, train

WORDS = "apple pear plum cherry grape melon fig lemon".split()


def write_pairs(file):
  """Writes 80 pairs of prompt and text, labelled by the fruit they name."""
  pick = lambda i, k: WORDS[(i * k + k) % 8]
  file.write_text("".join(
      json.dumps(dict(
          prompt=f"the {pick(i, 1)}",
          text=" ".join(pick(i, k) for k in range(1, 4 + i % 9)) + f" {i}.",
          fruit=pick(i, 2),
      )) + "\n"
      for i in range(80)
  ))


def pairs_config(folder, file):
  """Returns the configuration of a data set of pairs, and of two steps."""
  c = config_lib.default()
  c.data.sources = (
      config_lib.source("jsonl", "Text", path=str(file),
                        template="{prompt}\n", target="{text}"),
  )
  c.data.folder = str(folder / "data")
  c.data.truncate = True
  tiny_runs.shrink(c, 24, steps=2, eval_every=2, checkpoint_every=2)
  c.model.num_layers = 1  # Half the compiler's time; more are models/'s.
  return c


def train_base(folder, test_fraction=0.05):
  """Returns the configuration of a base's training, and its workdir."""
  file = folder / "pairs.jsonl"
  write_pairs(file)
  c = pairs_config(folder, file)
  c.data.validation_fraction = 0.2
  c.data.test_fraction = test_fraction
  c.tokenizer.vocab_size = 120
  c.optimizer.warmup_steps = 1
  prepare.prepare(c)
  base = str(folder / "base")
  train.train(c, base)
  return c, base


def make(folder):
  """Trains a base, a CVAE that trains it along, and one beside it.

  Returns:
    base, along, beside: workdirs; pairs: their file; config: of "along";
    result: of its training.
  """
  c, base = train_base(folder)
  paths = {name: str(folder / name) for name in ("along", "beside")}
  c.task.name = "cvae"
  c.train.init_from = base
  # Two of the decoder's updates: the first has a learning rate of 0.
  c.train.steps = 3
  c.cvae.update(dict(
      num_layers=1, latent_size=4, beta_period=2, freeze_steps=1,
      injections=("input", "pseudo_self_attention", "softmax"),
      init_heads="components", bag_of_words=0.1,
  ))
  result = train.train(c, paths["along"])
  beside = c.copy_and_resolve_references()
  beside.cvae.update(dict(train_base=False, freeze_steps=0))
  train.train(beside, paths["beside"])
  return paths | dict(
      base=base, pairs=str(folder / "pairs.jsonl"), config=c, result=result
  )
