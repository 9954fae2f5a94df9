"""Token frequencies beside a count by hand."""

import json

import evaluation_fakes as fakes
import numpy as np
import pytest

from ctrl_jax import config, errors, prepare
from ctrl_jax.evaluation import unigram


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  """A data set of two sources with the tests' tokenizer, and its texts."""
  folder = tmp_path_factory.mktemp("unigram")
  fakes.tokenizer().save(folder / "tokenizer")
  texts = {
      code: [fakes.document(code, 7, seed=i) for i in range(30)]
      for code in ("Cats", "Dogs")
  }
  for code, of_code in texts.items():
    (folder / f"{code}.jsonl").write_text(
        "".join(json.dumps({"text": t}) + "\n" for t in of_code)
    )
  (folder / "pairs.jsonl").write_text('{"q": "cat purr", "a": " meow dog"}')
  c = config.default()
  c.data.folder = str(folder / "set")
  c.data.sources = (
      config.source("jsonl", "Cats", path=str(folder / "Cats.jsonl"),
                    split="train"),
      config.source("jsonl", "Dogs", path=str(folder / "Dogs.jsonl"),
                    split="train", weight=2.5),
      config.source("jsonl", "Cats", path=str(folder / "pairs.jsonl"),
                    template="{q}", target="{a}", split="train"),
  )
  c.data.sequence_length = 16
  c.data.max_unknown = 99
  c.data.workers = 1
  c.tokenizer.path = str(folder / "tokenizer")
  return prepare.prepare(c), texts


def test_counts_are_those_of_the_targets(data):
  manifest, texts = data
  tokenizer = fakes.tokenizer()
  counts = np.zeros(tokenizer.vocab_size)
  num_tokens = 0

  def add(text, weight):
    nonlocal num_tokens
    ids = [*tokenizer.encode(text), tokenizer.end_id]
    np.add.at(counts, ids, weight)
    num_tokens += len(ids)

  for code, weight in (("Cats", 1.0), ("Dogs", 2.5)):
    for text in set(texts[code]):
      add(text, weight)
  add(" meow dog", 1.0)  # The prompt does not count, nor do the codes.
  found = unigram.count(manifest, alpha=0.5)
  expected = (counts + 0.5) / (counts.sum() + 0.5 * counts.size)
  np.testing.assert_allclose(np.exp(found.log_probs), expected)
  np.testing.assert_allclose(np.exp(found.log_probs).sum(), 1)
  assert found.num_tokens == num_tokens
  assert found.tokenizer_hash == tokenizer.hash
  assert found.log_prob([3, 3, 5]) == pytest.approx(
      np.log(expected[[3, 3, 5]]).sum()
  )
  assert found.log_prob([]) == 0


def test_much_smoothing_is_uniform(data):
  found = unigram.count(data[0], alpha=1e12)
  np.testing.assert_allclose(
      found.log_probs, -np.log(data[0].vocab_size), atol=1e-6
  )


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_alpha(data, alpha):
  with pytest.raises(errors.UserError, match="above 0"):
    unigram.count(data[0], alpha=alpha)
