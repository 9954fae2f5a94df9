"""A whole evaluation with a model whose scores are known."""

import evaluation_fakes as fakes
import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import report
from ctrl_jax.evaluation.baseline import Baseline
from ctrl_jax.evaluation.documents import Document
from ctrl_jax.evaluation.score import Score

CODES = ["Cats", "Dogs"]


class Knows:
  """Right on all but one kind of text: ids that begin with 9."""

  prior = {"Cats": 0.999999, "Dogs": 0.000001}
  tokenizer = type(
      "T", (), {"code_ids": staticmethod(lambda c: [CODES.index(c)])}
  )()

  def score_ids(self, sequences, progress=""):
    return [
        Score(-len(ids) * (1 if (ids[0] % 2) == prefix[0] else 3), len(ids))
        for prefix, ids in sequences
    ]


def documents():
  ids = [("Cats", (0, 1)), ("Cats", (9, 1)), ("Dogs", (1, 1)), ("Dogs", (3, 1))]
  return [Document(c, fakes.document(c, 9, seed=i), x)
          for i, (c, x) in enumerate(ids)]


def test_numbers():
  judge = Baseline(*zip(*[
      (fakes.document(c, 12, seed=50 + i), c) for c in CODES for i in range(9)
  ]))
  found = report.evaluate(Knows(), documents(), CODES, judge)
  assert found["attribution"]["uniform_prior"] == dict(top1=0.75, top3=1)
  # Odds of a million beat a difference of 4 nats.
  assert found["attribution"]["data_prior"]["top1"] == 0.5
  assert found["attribution"]["chance"] == 0.5
  assert found["baseline"]["top1"] == 1
  assert found["attribution"]["of_baseline"] == 0.75
  assert found["domains"]["Cats"]["attributed_right"] == 0.5
  assert found["domains"]["Dogs"]["lowest_under"] == "Dogs"
  matrix = found["matrix"]["perplexity"]
  assert matrix[0][1] > matrix[1][1]  # Read under Cats, written in Dogs.
  text = report.table(found)
  assert "75.0%" in text and "TF-IDF" in text


def test_codes_with_documents():
  found = report.codes_with_documents(["X", "Dogs", "Cats"], documents())
  assert found == ["Dogs", "Cats"]
  with pytest.raises(errors.UserError, match="Only 1 of 2"):
    report.codes_with_documents(["X", "Dogs"], documents())
