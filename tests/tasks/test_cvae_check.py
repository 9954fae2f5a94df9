import types

import pytest
from task_runs import cvae_configuration as configuration

from ctrl_jax import errors
from ctrl_jax.tasks import cvae_check as task_lib


def manifest(**changes):
  counts = types.SimpleNamespace(sequences=3, documents=changes.get("docs", 3))
  source = types.SimpleNamespace(name="pairs", splits={"train": counts})
  target = changes.get("target", "{text}")
  return types.SimpleNamespace(
      config={"data": {"sources": [{"target": target}]}}, sources=[source]
  )


def test_what_the_data_must_have():
  task_lib.check(configuration(), manifest())
  with pytest.raises(errors.UserError, match="needs pairs"):
    task_lib.check(configuration(), manifest(target=""))
  task_lib.check(configuration(prior="standard"), manifest(target=""))
  with pytest.raises(errors.UserError, match="data.truncate=True"):
    task_lib.check(configuration(), manifest(docs=2))
  with pytest.raises(errors.UserError, match="train.init_from"):
    task_lib.check(configuration(freeze_steps=5), manifest())
  with pytest.raises(errors.UserError, match="train.init_from"):
    task_lib.check(configuration(train_base=False), manifest())
  with pytest.raises(errors.UserError, match="sample_tokens=0"):
    task_lib.check(configuration(sample_tokens=5), manifest())
  split = dict(weights="split", init_from="base")
  task_lib.check(configuration(**split, bag_of_words=1.0), manifest())
  for reads in (
      dict(init_heads="components"), dict(bag_of_words=1.0, word_smoothing=0.1),
      dict(reads_words=True),
  ):
    task_lib.check(configuration(**reads), manifest())
    with pytest.raises(errors.UserError, match="train.weights='float32'"):
      task_lib.check(configuration(**split, **reads), manifest())
  with pytest.raises(errors.UserError, match="init_accumulators"):
    task_lib.check(configuration(init_accumulators=True), manifest())
