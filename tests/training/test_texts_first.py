"""States that begin with a look at training texts."""

import types

import numpy as np
import pytest

from ctrl_jax.training import texts_first


class Data:

  def batch(self, step):
    return {"tokens": np.full((4, 3), step), "weights": np.ones((4, 3))}


ROWS = types.SimpleNamespace(put=lambda batch: batch)


class Task:
  reads_texts_first = 10

  def begin_with_texts(self, params, batches):
    self.seen = [int(b["tokens"][0, 0]) for b in batches]
    assert params == {"base": {"a": 1, "b": 2}, "own": {"c": 3}}
    return {"base": {"a": 1, "b": 2}, "own": {"c": 4}}


@pytest.fixture(autouse=True)
def inputs(monkeypatch):
  monkeypatch.setattr(texts_first.run, "inputs", lambda batch: batch)


def test_as_many_texts_as_the_task_wants():
  task = Task()
  state = {"params": {"base": {"a": 1, "b": 2}, "own": {"c": 3}}, "step": 0}
  found = texts_first.begin(state, task, Data(), ROWS, 4)
  assert task.seen == [0, 1, 2]  # 12 texts.
  assert found == {
      "params": {"base": {"a": 1, "b": 2}, "own": {"c": 4}}, "step": 0
  }


def test_frozen_leaves_stay_apart():
  state = {
      "params": {"base": {"b": 2}, "own": {"c": 3}},
      "frozen": {"base": {"a": 1}},
  }
  found = texts_first.begin(state, Task(), Data(), ROWS, 4)
  assert found == {
      "params": {"base": {"b": 2}, "own": {"c": 4}},
      "frozen": {"base": {"a": 1}},
  }


def test_others_want_none():
  state = {"params": {"a": 1}}
  assert texts_first.begin(state, object(), None, None, 4) is state
