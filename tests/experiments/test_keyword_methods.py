"""The keyword experiment from triples to table, on tiny models."""

import json

import keyword_runs
import pytest

import ctrl_jax
from ctrl_jax import errors
from ctrl_jax.data import keywords
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.evaluation import held_out
from ctrl_jax.experiments import (
    keyword_methods,
    keyword_point,
    keyword_report,
    lines,
)

pytestmark = pytest.mark.slow

@pytest.fixture(scope="module")
def made(keyword_models, tmp_path_factory):
  """(folder, the experiment's configuration, the models)."""
  folder = tmp_path_factory.mktemp("keyword_experiment")
  c, runs = keyword_models
  c = c.copy_and_resolve_references()
  part = runs["config"].copy_and_resolve_references()
  part.data.train_share = 0.3
  part.data.folder = str(folder / "part")
  scratch = runs["config"].copy_and_resolve_references()
  scratch.task.name = "language_model"
  scratch.train.init_from = ""
  keyword_runs.CONFIGS = {
      "feature": runs["config"], "feature@30": part, "scratch": scratch
  }
  c.workdirs = str(folder / "methods")
  methods = runs["methods"]
  auxiliary = dict(frozen=True, attribute="{keyword}")
  c.methods = (
      dict(name="base"),
      dict(name="zero_shot", sampler="zero_shot", num_prompts=2),
      dict(name="pplm", sampler="pplm", num_prompts=2),
      dict(name="auxiliary", config=f"{methods}:feature", **auxiliary),
      dict(name="auxiliary@30", config=f"{methods}:feature@30", **auxiliary),
      dict(name="scratch", config=f"{methods}:scratch", seeds=(0, 1)),
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
      "auxiliary@30": [(3, 0), (6, 0)],
      "scratch": [(3, 0), (3, 1), (6, 0), (6, 1)],
  }
  for of_method in found.values():
    for line in of_method:
      assert 0 <= line["accuracy"]["value"] <= 1
      assert len(line["accuracy"]["hits"]) == line["accuracy"]["samples"]
      assert line["slor"]["value"] != line["slor_continuation"]["value"]
      count = 2 if line["method"] in ("zero_shot", "pplm") else 6
      assert line["slor"]["samples"] + line["slor"]["empty"] == count
      assert len(line["examples"]) == count
      assert line["sample_bytes"] > 40_000
  # What is frozen forgets nothing; the rest is measured.
  assert "base_perplexity" not in found["auxiliary"][0]
  assert found["scratch"][0]["base_perplexity"] > (
      found["base"][0]["base_perplexity"]
  )
  # Compiled from more than parameters and optimizer state, and no more of it
  # for less text.
  assert found["auxiliary"][0]["train_bytes"] > 40_000
  assert found["auxiliary"][0]["train_bytes"] == (
      found["auxiliary@30"][0]["train_bytes"]
  )
  assert found["auxiliary"][0]["sample_bytes"] > (
      found["scratch"][0]["sample_bytes"]
  )
  assert found["auxiliary"][0]["train_share"] == 1
  assert found["auxiliary@30"][0]["train_share"] == 0.3
  assert found["auxiliary@30"][0]["train_documents"] < (
      0.6 * found["auxiliary"][0]["train_documents"]
  )
  assert found["auxiliary"][1]["tokens"] == 6 * 8 * 24
  assert found["auxiliary"][1]["flops"] == 2 * found["auxiliary"][0]["flops"]
  # The first half of a run is the run of half the steps.
  a, b = (line["test_perplexity"] for line in found["auxiliary"])
  assert a != b


def test_what_the_base_says_of_true_continuations(made, results):
  """As of a data set of the same triples, by a model that hears no keyword."""
  _, c, runs = made
  assert lines.collect(results)["base"][0]["test_perplexity"] > 1
  model = ctrl_jax.load(c.base)
  data = Manifest.load(runs["config"].data.folder)
  triples = [
      keywords.Triple("", document.prompt, document.text, "")
      for _, document in held_out.read(
          held_out.sources_of(data), data, "test"
      )
  ]
  found = keyword_point.continuation_perplexity(model, triples, "Text")
  # The longest are cut into two sequences there.
  assert found == pytest.approx(
      keyword_point.perplexity(model, data, "test"), rel=0.005
  )


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


@pytest.mark.parametrize("field", ["code", "scorer_code"])
def test_a_code_that_a_model_lacks_is_found_before_any_training(
    made, tmp_path, field
):
  c = made[1].copy_and_resolve_references()
  c[field] = "Texts"
  with pytest.raises(errors.UserError, match="Did you mean 'Text'"):
    keyword_methods.Experiment(c, tmp_path).run()
  assert not list(tmp_path.iterdir())


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
  for name in ("curves.png", "curves_flops.png", "shares.png"):
    assert (results / name).read_bytes()[:4] == b"\x89PNG"
  assert (results / "table.md").read_text() == text
  shares = (results / "shares.md").read_text().splitlines()[2:]
  assert [row.split(" | ")[:2] for row in shares] == [
      ["| auxiliary", "100"], ["| auxiliary", "30"]
  ]


@pytest.mark.usefixtures("results")
def test_a_step_that_the_training_is_past(made, tmp_path):
  """Not measured from the checkpoint of another step."""
  _, c, _ = made
  with pytest.raises(errors.UserError, match="step 6 already, and step 3 is"):
    keyword_methods.Experiment(c, tmp_path).run("auxiliary")
