import ml_collections
import pytest

from ctrl_jax import errors
from ctrl_jax.experiments import (
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
