"""A tiny base and an auxiliary tuned beside it, for tests of what uses them."""

import json

import tiny_runs

from ctrl_jax import config as config_lib
from ctrl_jax import prepare, train

WORDS = "apple pear plum cherry grape melon fig lemon".split()
KEYWORDS = ("however", "soon", "in fact")


def sentence(i, keyword):
  pick = lambda k: WORDS[(i * k + k) % 8]
  return f"the {pick(1)}", f" and {pick(2)} {keyword} fell on {pick(3)} {i}."


def train_base(folder):
  """Writes triples and trains a base on their sentences for a few steps.

  Returns:
    folder; base: its workdir; base_config; triples: file of keyword, prefix
    and text.
  """
  rows = []
  for i in range(120):
    keyword = KEYWORDS[i % 3]
    prefix, text = sentence(i, keyword)
    rows.append(dict(keyword=keyword, prefix=prefix, text=text))
  file = folder / "triples.jsonl"
  file.write_text("".join(json.dumps(row) + "\n" for row in rows))
  c = config_lib.default()
  c.data.sources = (
      config_lib.source("jsonl", "Text", path=str(file),
                        template="{prefix}{text}"),
  )
  c.data.folder = str(folder / "base_data")
  c.data.validation_fraction = 0.1
  c.data.test_fraction = 0.1
  c.tokenizer.vocab_size = 120
  c.optimizer.warmup_steps = 2
  tiny_runs.shrink(c, 24, steps=6, eval_every=3, checkpoint_every=3)
  prepare.prepare(c)
  base = str(folder / "base")
  train.train(c, base)
  return dict(folder=folder, base=base, base_config=c, triples=str(file))


def train_beside(runs, name, kind, template, attribute="", **sections):
  """Trains a task beside `train_base`'s model.

  Args:
    runs: from `train_base`.
    name: of the workdir.
    kind: `task.name`.
    template: of the prompt; the target is the triple's text.
    attribute: template of the attribute; "" for none.
    **sections: section -> fields that are changed.

  Returns:
    `runs`, with `workdir` and `config`.
  """
  folder = runs["folder"]
  c = runs["base_config"].copy_and_resolve_references()
  c.data.folder = str(folder / f"{name}_data")
  c.data.attribute_length = 8 if attribute else 0
  c.data.sources = (
      config_lib.source(
          "jsonl", "Text", path=runs["triples"], template=template,
          target="{text}", attribute=attribute,
      ),
  )
  c.tokenizer.path = str(folder / "base_data" / "tokenizer")
  c.task.name = kind
  c.train.init_from = runs["base"]
  for section, fields in sections.items():
    c[section].update(fields)
  prepare.prepare(c)
  workdir = str(folder / name)
  train.train(c, workdir)
  return runs | dict(workdir=workdir, config=c)


def make(folder):
  """Trains a base and an auxiliary beside it for a few steps.

  Returns:
    See `train_beside`; and head: the auxiliary's workdir.
  """
  runs = train_beside(
      train_base(folder), "keyword", "auxiliary_tuning", "{prefix}",
      "{keyword}", task=dict(attribute_dropout=0.2),
      auxiliary=dict(
          attribute_length=8, reused_layers=1, d_model=8, d_ff=16,
          num_layers=1, num_heads=2,
      ),
  )
  return runs | dict(head=runs["workdir"])
