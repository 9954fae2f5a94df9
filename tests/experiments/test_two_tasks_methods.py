"""Two auxiliaries at once, and tuning in sequence, on tiny models."""

import keyword_runs
import pytest
import topic_runs

from ctrl_jax import prepare, train
from ctrl_jax.experiments import lines, two_tasks_methods, two_tasks_report
from ctrl_jax.experiments.topics import Prompt


class Judge:
  """Names every text by its first word."""

  def hits(self, texts, asked):
    return [t.split()[0] == p.topic for t, p in zip(texts, asked)]


def test_accuracy_of_both():
  run = two_tasks_methods.Experiment.__new__(two_tasks_methods.Experiment)
  run.judge = Judge()
  asked = [Prompt("cats", "We", "", "dogs", "so")] * 4
  found = run.both([" cats so", " cats", " dogs so", " dogs sow"], asked)
  assert found["value"] == 0.25
  assert found["keyword"]["value"] == found["topic"]["value"] == 0.5
  assert found["by_topic"]["cats"]["samples"] == 4


@pytest.fixture(scope="module")
def results(keyword_models, tmp_path_factory):
  folder = tmp_path_factory.mktemp("two_tasks")
  c, runs = keyword_models
  c = c.copy_and_resolve_references()
  c.topics = topic_runs.write(folder)
  c.workdirs = str(folder / "methods")
  c.fractions = (1.0,)
  c.num_prompts = 4
  del c.num_tokens
  c.num_tokens = dict(keyword=3, topic=4, both=4)
  topic = topic_runs.config(runs["config"], c.topics, folder / "attribute")
  prepare.prepare(topic)
  train.train(topic, str(folder / "topic"))
  keyword_runs.CONFIGS = {"twice": topic_runs.config(
      runs["config"], c.topics, folder / "prefix", attribute=False
  )}
  heads = dict(keyword=runs["head"], topic=str(folder / "topic"))
  words = dict(keyword="{keyword}: {prefix}", topic="{topic}: {prefix}",
               both="{topic}: {keyword}: {prefix}")
  c.methods = (
      dict(name="base"),
      dict(name="one", heads=dict(keyword=heads["keyword"])),
      dict(name="two", heads=heads),
      dict(name="off", heads=heads, weights=dict(keyword=0.0, topic=0.0)),
      dict(name="twice", config=f"{runs['methods']}:twice", prompts=words),
      dict(name="again", model=f"{c.workdirs}/twice-0", prompts=words),
  )
  return folder / "out", c


@pytest.mark.slow
def test_lines_and_report(results):
  out, c = results
  assert two_tasks_methods.Experiment(c, out).run()
  found = {name: of[0] for name, of in lines.collect(out).items()}
  texts = lambda name, task: [x["text"] for x in found[name][task]["examples"]]
  for line in found.values():
    assert all(len(line[task]["examples"]) == 4 for task in c.num_tokens)
    assert {"keyword", "topic"} < set(line["both"]["accuracy"])
    assert ("base_perplexity" in line) == (
        line["method"] in ("base", "again", "twice")
    )
  # A weight of 0 is the base; one auxiliary is so where it is not asked.
  for task in c.num_tokens:
    assert texts("off", task) == texts("base", task)
    assert texts("again", task) == texts("twice", task) != texts("base", task)
  assert texts("one", "topic") == texts("base", "topic")
  assert texts("one", "keyword") == texts("two", "keyword")
  text = two_tasks_report.write(out)
  assert [row.split(" |")[0] for row in text.splitlines()[2:]] == [
      f"| {name}" for name in sorted(found)
  ]
