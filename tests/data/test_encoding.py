"""Tokenizing: a document's ids and weights, and worker processes."""

import itertools
import os

import numpy as np
import pytest

from ctrl_jax import errors, text
from ctrl_jax.data import documents, encoding


@pytest.fixture(scope="module")
def tokenizer(prepared):
  return text.load_tokenizer(prepared[1].tokenizer_folder)


def texts(count):
  for i in range(count):
    yield i, documents.Document(f"the cat {i}" * (i % 3), "sat on a mat.", True)


def test_the_end_counts_and_the_prompt_does_not(tokenizer):
  prompt, rest = "the cat sat", " on a mat"
  tokens, weights, attribute = encoding.encode(
      tokenizer, documents.Document(prompt, rest, True)
  )
  ids = tokenizer.encode(prompt)
  expected = [*ids, *tokenizer.encode(rest), tokenizer.end_id]
  assert tokens.tolist() == expected and tokens.dtype == np.int32
  assert weights.tolist() == [0] * len(ids) + [1] * (len(expected) - len(ids))
  assert weights.dtype == np.uint8
  assert attribute.size == 0


def test_an_attribute_is_apart_from_the_text(tokenizer):
  document = documents.Document("", "the cat sat", False, "a mat")
  tokens, _, attribute = encoding.encode(tokenizer, document)
  assert attribute.tolist() == tokenizer.encode("a mat")
  assert attribute.dtype == np.int32
  assert tokens.tolist() == [*tokenizer.encode("the cat sat"), tokenizer.end_id]


def test_a_tokenizer_without_an_end(tokenizer, monkeypatch):
  monkeypatch.setattr(tokenizer, "end_id", None)
  tokens, weights, _ = encoding.encode(
      tokenizer, documents.Document("", "the cat", False)
  )
  assert tokens.tolist() == tokenizer.encode("the cat")
  assert weights.all()


def test_workers_keep_the_order_and_read_little_ahead(tokenizer, monkeypatch):
  monkeypatch.setattr(encoding, "_CHUNK_CHARS", 40)
  with encoding.Encoder(tokenizer, 1) as encoder:
    expected = list(encoder.map(texts(200)))
  assert [key for key, *_ in expected] == list(range(200))
  items = texts(200)
  with encoding.Encoder(tokenizer, 2) as encoder:
    results = encoder.map(items)
    found = [next(results)]
    # Three tasks a worker and the one being made, of at most 4 texts each.
    ahead = next(items)
    assert ahead[0] <= 7 * 4
    found += results
  del expected[ahead[0]]  # Taken from the encoder, above.
  for one, two in itertools.zip_longest(expected, found):
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])
    np.testing.assert_array_equal(one[2], two[2])


class _Deadly:
  """Ends the process that unpickles it."""

  def __reduce__(self):
    return os._exit, (1,)


def test_a_dead_worker_is_one_line():
  with encoding.Encoder(_Deadly(), 2) as encoder:
    with pytest.raises(errors.UserError, match=r"died.*data\.workers=1") as e:
      list(encoder.map(texts(3)))
  assert "\n" not in str(e.value)
