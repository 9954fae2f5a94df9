"""The keyword experiment from triples to table, on tiny models."""

import json

import auxiliary_runs
import ml_collections
import pytest

import ctrl_jax
from ctrl_jax import config as config_lib
from ctrl_jax import keywords, train
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.experiments import (
    keyword_methods,
    keyword_point,
    keyword_report,
    lines,
)

pytestmark = pytest.mark.slow

# What the files of the trained methods hold; {folder} is the runs'.
_CONFIG = """
import auxiliary_runs
def get_config(name):
  return auxiliary_runs.CONFIGS[name].copy_and_resolve_references()
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
  """An experiment's configuration, with base, scorer, keywords and data."""
  folder = tmp_path_factory.mktemp("experiment")
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
  scratch = runs["config"].copy_and_resolve_references()
  scratch.task.name = "language_model"
  scratch.train.init_from = ""
  auxiliary_runs.CONFIGS = {"feature": runs["config"], "scratch": scratch}
  (folder / "methods.py").write_text(_CONFIG)
  c = ml_collections.ConfigDict()
  c.update(dict(
      keywords=str(folder / "keywords"), base=runs["base"],
      base_data=runs["base_config"].data.folder, scorer=str(folder / "scorer"),
      scorer_data=runs["base_config"].data.folder, code="Text",
      workdirs=str(folder / "methods"), num_prompts=6, num_tokens=5,
      batch_size=6, base_sequences=8, fractions=(0.5, 1.0), steps=0,
  ))
  c.methods = (
      dict(name="base"),
      dict(name="zero_shot", sampler="zero_shot", num_prompts=2),
      dict(name="pplm", sampler="pplm", num_prompts=2),
      dict(name="auxiliary", config=f"{folder}/methods.py:feature",
           frozen=True, attribute="{keyword}"),
      dict(name="scratch", config=f"{folder}/methods.py:scratch",
           prompt="{prefix}", seeds=(0, 1)),
  )
  return folder, c, runs


@pytest.fixture(scope="module")
def results(made):
  folder, c, _ = made
  assert keyword_methods.Experiment(c, folder / "out").run()
  return folder / "out"


def test_lines(made, results):
  found = lines.collect(results)
  assert {k: [(x["step"], x["seed"]) for x in v] for k, v in found.items()} == {
      "base": [(0, 0)],
      "zero_shot": [(0, 0)],
      "pplm": [(0, 0)],
      "auxiliary": [(3, 0), (6, 0)],
      "scratch": [(3, 0), (3, 1), (6, 0), (6, 1)],
  }
  for of_method in found.values():
    for line in of_method:
      assert 0 <= line["accuracy"]["value"] <= 1
      count = 2 if line["method"] in ("zero_shot", "pplm") else 6
      assert line["slor"]["samples"] + line["slor"]["empty"] == count
      assert len(line["examples"]) == count
  # What is frozen forgets nothing; the rest is measured.
  assert "base_perplexity" not in found["auxiliary"][0]
  assert found["scratch"][0]["base_perplexity"] > 1
  assert found["auxiliary"][1]["tokens"] == 6 * 8 * 24
  assert found["auxiliary"][1]["flops"] == 2 * found["auxiliary"][0]["flops"]
  # The first half of a run is the run of half the steps.
  a, b = (line["test_perplexity"] for line in found["auxiliary"])
  assert a != b


def test_the_same_call_goes_on(made, results, monkeypatch):
  """A line that is gone is measured again, and nothing else."""
  folder, c, _ = made
  file = results / "auxiliary-0.jsonl"
  before = lines.read(file)
  file.write_text(json.dumps(before[0]) + "\n")
  called = []
  measure = keyword_point.measure
  monkeypatch.setattr(
      keyword_point, "measure",
      lambda *a, **k: called.append(1) or measure(*a, **k),
  )
  assert keyword_methods.Experiment(c, results).run()
  assert len(called) == 1
  after = lines.read(file)
  for key in ("accuracy", "slor", "test_perplexity", "examples"):
    assert after[1][key] == before[1][key]


def test_perplexity_is_of_the_targets(made):
  _, _, runs = made
  data = Manifest.load(runs["config"].data.folder)
  head = ctrl_jax.load(runs["head"])
  base = ctrl_jax.load(runs["base"])
  assert keyword_point.perplexity(head, data, "test") != (
      keyword_point.perplexity(base, data, "test")
  )


def test_report(results):
  text = keyword_report.write(results)
  rows = text.splitlines()
  assert len(rows) == 2 + 5 and rows[2].startswith("| auxiliary |")
  (scratch,) = (line for line in rows if line.startswith("| scratch |"))
  assert "(" in scratch  # Two seeds: their range.
  for name in ("curves.png", "curves_flops.png"):
    assert (results / name).read_bytes()[:4] == b"\x89PNG"
  assert (results / "table.md").read_text() == text
