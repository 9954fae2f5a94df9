"""What the experiments on keywords need, made tiny: for their tests."""

import json

import auxiliary_runs
import ml_collections

from ctrl_jax import config as config_lib
from ctrl_jax import keywords, train

# What the file of the trained methods holds.
_CONFIG = """
import keyword_runs
def get_config(name):
  return keyword_runs.CONFIGS[name].copy_and_resolve_references()
"""
# Of the trained methods, by name; `make` fills it.
CONFIGS = {}


def make(folder):
  """Makes base, scorer, an auxiliary and a set of keyword triples.

  Returns:
    (fields that experiments on keywords have, `auxiliary_runs.make`'s with
    methods: the trained methods' file).
  """
  runs = auxiliary_runs.make(folder)
  scorer_config = runs["base_config"].copy_and_resolve_references()
  scorer_config.train.seed = 5
  train.train(scorer_config, str(folder / "scorer"))
  rows = [json.loads(line) for line in open(runs["triples"])]
  sentences = folder / "sentences.jsonl"
  sentences.write_text("".join(
      json.dumps(row | dict(text=row["prefix"] + row["text"])) + "\n"
      for row in rows
  ))
  splits = config_lib.default()
  splits.data.test_fraction = 0.2
  keywords.make(
      folder / "keywords", config=splits, triples=(str(sentences),)
  )
  methods = folder / "methods.py"
  methods.write_text(_CONFIG)
  c = ml_collections.ConfigDict()
  c.update(dict(
      keywords=str(folder / "keywords"), base=runs["base"],
      base_data=runs["base_config"].data.folder, scorer=str(folder / "scorer"),
      scorer_data=runs["base_config"].data.folder, code="Text",
      scorer_code="Text", num_prompts=6, num_tokens=5, batch_size=6,
      base_sequences=8, fractions=(0.5, 1.0), steps=0,
  ))
  return c, runs | dict(methods=str(methods))
