import math

import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax.training import evaluation


class FakeTask:
  """nll is what `tokens` says; weight what `weights` says."""

  def loss(self, params, batch, dropout_key):
    assert dropout_key is None
    nll = batch["tokens"] * params * batch["weights"]
    return nll.sum(), {"nll": nll.sum(1), "weight": batch["weights"].sum(1)}


def batch(source, tokens, weights):
  return dict(
      source=np.array(source), tokens=np.array(tokens, np.float32),
      weights=np.array(weights, np.float32),
  )


def test_perplexity_overall_and_by_code_by_hand():
  batches = [
      batch([0, 1], [[1, 3], [2, 9]], [[1, 1], [1, 0]]),
      # The last rows fill the batch up: no weight, whatever their source.
      batch([1, 0], [[4, 0], [9, 9]], [[1, 0], [0, 0]]),
  ]
  step = evaluation.make_eval_step(FakeTask())
  result = evaluation.perplexities(
      step, jnp.float32(0.5), batches, lambda b: b, ["Cats", "Dogs"]
  )
  assert result["loss"] == pytest.approx((0.5 + 1.5 + 1.0 + 2.0) / 4)
  assert result["perplexity"] == pytest.approx(math.exp(1.25))
  assert result["perplexity_by_code"] == {
      "Cats": pytest.approx(math.exp(1.0)), "Dogs": pytest.approx(math.exp(1.5))
  }


def test_two_sources_of_one_code_count_together():
  step = evaluation.make_eval_step(FakeTask())
  result = evaluation.perplexities(
      step, jnp.float32(1), [batch([0, 1], [[1, 0], [3, 0]], [[1, 0], [1, 0]])],
      lambda b: b, ["A", "A"],
  )
  assert result["perplexity_by_code"] == {"A": pytest.approx(math.exp(2))}


def test_a_model_gone_wild_has_a_number():
  step = evaluation.make_eval_step(FakeTask())
  result = evaluation.perplexities(
      step, jnp.float32(1e6), [batch([0], [[1]], [[1]])], lambda b: b, ["A"]
  )
  assert math.isfinite(result["perplexity"])


class SaysMore(FakeTask):
  def loss(self, params, batch, dropout_key):
    total, rows = super().loss(params, batch, dropout_key)
    return total, rows | {"kl": batch["tokens"].sum(1)}


def test_what_else_a_task_says_is_averaged_over_the_real_rows():
  step = evaluation.make_eval_step(SaysMore())
  batches = [
      batch([0, 1], [[1, 3], [2, 9]], [[1, 1], [1, 0]]),
      batch([1, 0], [[4, 0], [9, 9]], [[1, 0], [0, 0]]),
  ]
  result = evaluation.perplexities(
      step, jnp.float32(1), batches, lambda b: b, ["A", "B"]
  )
  assert result["kl"] == pytest.approx((4 + 11 + 4) / 3)
