import ml_collections
import pytest

from ctrl_jax import errors
from ctrl_jax.experiments import (
    config_files,
    cvae_methods,
    cvae_report,
    keyword_methods,
    keyword_report,
    kinds,
    topic_methods,
    topic_report,
    two_tasks_methods,
    two_tasks_report,
)


def test_every_kind_has_its_modules():
  expected = {
      "keyword": (keyword_methods.Experiment, keyword_report.write),
      "topic": (topic_methods.Experiment, topic_report.write),
      "two_tasks": (two_tasks_methods.Experiment, two_tasks_report.write),
      "cvae": (cvae_methods.Experiment, cvae_report.write),
  }
  assert set(kinds.NAMES) == set(expected)
  for name, pair in expected.items():
    assert kinds.of(ml_collections.ConfigDict(dict(kind=name))) == pair


def test_others_are_none():
  with pytest.raises(errors.UserError, match="Did you mean 'cvae'"):
    kinds.of(dict(kind="cave"))
  with pytest.raises(errors.UserError, match="is no experiment"):
    kinds.of({})


def experiment(name, drop="", **changes):
  """The experiment of configs/NAME_experiment.py, changed."""
  c = config_files.load(f"configs/{name}_experiment.py")
  if drop:
    del c[drop]
  with c.unlocked():
    c.update(changes)
  return kinds.of(c).experiment(c, "unused")


@pytest.mark.parametrize("name", [*kinds.NAMES, "smollm2"])
def test_every_field_is_asked_for_before_anything_runs(name):
  whole = experiment(name)
  whole.require(*whole.needs(whole.methods)[0])
  for method in whole.methods:
    whole.check_method(method)
  # Topics have them for the two tasks, which begin with their configuration.
  others = {"kind", "methods", "models"}
  others |= {"keywords"} if name == "topic" else set()
  for field in set(whole.config) - others:
    run = experiment(name, field)
    with pytest.raises(errors.UserError, match=f"has no {field}: start from"):
      run.check(run.methods)


@pytest.mark.parametrize("name, method, says", [
    ("keyword", dict(prompt="{nope}: {prefix}"), "no field 'nope'.*prefix"),
    ("keyword", dict(attribute="{topic}"), "the method 'x': no field 'topic'"),
    ("keyword", dict(prompt="{prefix"), "'{' stands alone"),
    ("topic", dict(prompt="{document}"), "no field 'document'"),
    ("keyword", dict(sampler="zeroshot"), "Did you mean 'zero_shot'"),
    ("two_tasks", dict(prompts=dict(keyword="{topic}")), "no field 'topic'"),
    ("two_tasks", dict(prompts=dict(keywords="")), "prompts of 'keywords'"),
    ("two_tasks", dict(heads=dict(both="x")), "heads of 'both'"),
    ("cvae", dict(config="none.py"), "There is no configuration 'none.py'"),
])
def test_a_method_is_checked_before_anything_runs(name, method, says):
  run = experiment(name, methods=(dict(name="x", **method),))
  with pytest.raises(errors.UserError, match=says):
    run.check(run.methods)


def test_two_tasks_want_a_length_each():
  for lengths in (30, dict(keyword=30)):
    run = experiment("two_tasks", "num_tokens", num_tokens=lengths)
    with pytest.raises(errors.UserError, match="number for each of keyword"):
      run.check(run.methods)


def test_the_bases_text_is_read_if_a_method_may_forget_it():
  for name, kept in (
      ("keyword", dict(frozen=True)), ("keyword", dict(sampler="pplm")),
      ("two_tasks", dict(heads=dict(topic="x"))),
  ):
    run = experiment(name, methods=(dict(name="x", **kept),))
    assert "base_data" not in run.needs(run.methods)[1]
    run = experiment(name, methods=(dict(name="x"),))
    assert "base_data" in run.needs(run.methods)[1]


def test_what_tables_promise():
  """As README tells it: numbers of texts, seeds, and where is measured."""
  keyword = config_files.load("configs/keyword_experiment.py")
  assert (keyword.num_prompts, keyword.num_tokens) == (500, 30)
  assert keyword.fractions[-1] == 1 and 0.1 in keyword.fractions
  cvae = config_files.load("configs/cvae_experiment.py")
  assert (cvae.latents, cvae.bound_texts, cvae.texts) == (50, 100, 500)
  for config, names in (
      (keyword, {"auxiliary", "scratch"}), (cvae, {"cvae_1", "finetune"}),
  ):
    seeds = {m["name"]: m.get("seeds", (0,)) for m in config.methods}
    assert {n for n, of in seeds.items() if len(of) > 1} == names
    assert all(tuple(seeds[n]) == (0, 1, 2) for n in names)
