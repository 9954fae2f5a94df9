import math

import evaluation_fakes as fakes
import pytest

from ctrl_jax import errors, language_model
from ctrl_jax.evaluation import without_code
from ctrl_jax.evaluation.documents import Document


def test_all_tokens_from_the_second_on():
  model = language_model.LanguageModel(
      fakes.config(), fakes.params(), tokenizer=fakes.tokenizer()
  )
  rows = [[5, 9, 30, 7], [8, 6]]
  documents = [Document("", "", tuple(ids)) for ids in rows]
  found = without_code.measure(model, documents)
  log_prob = sum(fakes.plain_log_prob(ids, 1) for ids in rows)
  assert (found["documents"], found["tokens"]) == (2, 4)
  assert found["perplexity"] == pytest.approx(math.exp(-log_prob / 4), rel=1e-4)
  assert "2 documents, 4 tokens" in without_code.line(found)


def test_no_documents():
  with pytest.raises(errors.UserError, match="--min-tokens"):
    without_code.measure(None, [])
