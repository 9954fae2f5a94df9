"""The topic experiment from texts to table, on tiny models."""

import keyword_runs
import pytest
import topic_runs

from ctrl_jax.experiments import lines, topic_methods, topic_report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(keyword_models, tmp_path_factory):
  folder = tmp_path_factory.mktemp("topic_experiment")
  c, runs = keyword_models
  c = c.copy_and_resolve_references()
  c.topics = topic_runs.write(folder)
  c.workdirs = str(folder / "methods")
  c.fractions = (1.0,)
  make = lambda name, **options: topic_runs.config(
      runs["config"], c.topics, folder / name, **options
  )
  keyword_runs.CONFIGS = {
      "feature": make("attribute"), "finetune": make("prefix", attribute=False)
  }
  c.methods = (
      dict(name="base"),
      dict(name="auxiliary", config=f"{runs['methods']}:feature", frozen=True,
           attribute="{topic}"),
      dict(name="finetune", config=f"{runs['methods']}:finetune",
           prompt="{topic}: {prefix}"),
      dict(name="pplm", sampler="pplm", num_prompts=2,
           options=dict(num_iterations=1)),
  )
  assert topic_methods.Experiment(c, folder / "out").run()
  return folder / "out"


def test_lines(results):
  found = lines.collect(results)
  assert set(found) == {"base", "auxiliary", "finetune", "pplm"}
  (moved,) = found.pop("pplm")
  assert moved["accuracy"]["samples"] == 2
  for (line,) in found.values():
    accuracy = line["accuracy"]
    assert accuracy["samples"] == 6
    assert set(accuracy["by_topic"]) == set(topic_runs.TOPICS)
    # Texts name their topic.
    assert accuracy["real"]["value"] == 1
    assert accuracy["real"]["samples"] > 8
    assert line["slor"]["samples"] + line["slor"]["empty"] == 6
    assert line["examples"][0]["topic"] in topic_runs.TOPICS
  assert "test_perplexity" not in found["base"][0]
  for name in ("auxiliary", "finetune"):
    assert found[name][0]["test_perplexity"] > 1


def test_report(results):
  text = topic_report.write(results)
  assert "| auxiliary |" in text and "right on 100.0 [" in text
  assert (results / "curves.png").exists()
