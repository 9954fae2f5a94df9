"""Cutting: every text token is a target once, in order, and counts add up."""

import numpy as np
import pytest

from ctrl_jax.data import sequences


def collect(stream, parts):
  rows = [*map(stream.add, parts), stream.close()]
  rows = [r for r in rows if r is not None]
  return sequences.Rows(*map(np.concatenate, zip(*rows, strict=True)))


@pytest.mark.parametrize("code_ids", [[7], [7, 8, 9]])
@pytest.mark.parametrize("width", [5, 17])
@pytest.mark.parametrize("length", [1, 14, 56, 3000])
def test_stream_holds_every_token_once_as_a_target(code_ids, width, length):
  rng = np.random.default_rng(0)
  text = rng.integers(10, 99, length).astype(np.int32)
  parts = np.split(text, np.sort(rng.integers(0, length, 20)))
  rows = collect(sequences.Stream(code_ids, width), parts)
  assert rows.tokens.dtype == np.int32 and rows.weights.dtype == np.uint8
  assert rows.length.dtype == np.int32
  size = len(code_ids)
  assert (rows.tokens[:, :size] == code_ids).all()
  np.testing.assert_array_equal(
      rows.tokens[:, 1:][rows.weights[:, 1:] == 1], text
  )
  # Only the last row is padded, and by zeros after its length.
  assert (rows.length[:-1] == width).all()
  assert rows.length.sum() == length + size * len(rows.length)
  assert not rows.tokens[-1, rows.length[-1] :].any()
  assert not rows.weights[:, :size].any()


@pytest.mark.parametrize("length, targets", [(5, 4), (10, 8), (11, 8)])
def test_without_a_code_the_first_token_is_no_target(length, targets):
  text = np.arange(10, 10 + length, dtype=np.int32)
  rows = collect(sequences.Stream([], 5), [text])
  np.testing.assert_array_equal(rows.tokens.ravel()[:length], text)
  assert not rows.weights[:, 0].any() and rows.weights.sum() == targets
  # A row of a single token has none at all.
  counts = sequences.Counts()
  kept = sequences.select(rows, counts, 0, 0, max_unknown=2)
  assert kept.weights.any(1).all()
  assert counts.dropped_sequences == ({"no_target": 1} if length == 11 else {})


def test_select_drops_and_counts():
  tokens = np.array(
      [[9, 1, 1, 1], [9, 0, 0, 1], [9, 0, 0, 0], [9, 1, 0, 0]], np.int32
  )
  weights = np.array([[0, 1, 1, 1]] * 3 + [[0, 0, 0, 0]], np.uint8)
  length = np.array([4, 4, 2, 2], np.int32)  # Zeros after it are padding.
  counts = sequences.Counts()
  kept = sequences.select(
      sequences.Rows(tokens, weights, length), counts, 1, 0, max_unknown=1
  )
  np.testing.assert_array_equal(kept.tokens, tokens[[0, 2]])
  assert counts == sequences.Counts(
      tokens=4,
      sequences=2,
      unknown=1,
      dropped_sequences={"unknown_tokens": 1, "no_target": 1},
      dropped_tokens={"unknown_tokens": 3, "no_target": 1},
  )


def test_a_code_that_holds_the_unknown_id_is_not_counted():
  rows = sequences.cut(np.ones(2, np.int32), np.ones(2, np.uint8), [0, 0], 4)
  counts = sequences.Counts()
  sequences.select(rows, counts, 2, 0, max_unknown=0)
  assert counts.sequences == 1 and counts.unknown == 0


def test_truncate_keeps_the_first_row_and_counts_the_rest():
  text = np.arange(10, 20, dtype=np.int32)
  rows = sequences.cut(text, np.ones(10, np.uint8), [7], 5)
  counts = sequences.Counts()
  kept = sequences.truncate(rows, counts, 1)
  np.testing.assert_array_equal(kept.tokens, [[7, 10, 11, 12, 13]])
  assert counts.dropped_sequences == {"truncated": 2}
  assert counts.dropped_tokens == {"truncated": 6}
  assert sequences.truncate(kept, counts, 1).tokens.shape == (1, 5)
  assert counts.dropped_sequences == {"truncated": 2}


def test_counts_of_parts_add_up():
  parts = [
      sequences.Counts(documents=1, tokens=20, dropped_tokens={"a": 3}),
      sequences.Counts(
          sequences=2, unknown=1, dropped_tokens={"a": 4, "b": 5}
      ),
  ]
  assert sequences.total(parts) == sequences.Counts(
      documents=1, tokens=20, sequences=2, unknown=1,
      dropped_tokens={"a": 7, "b": 5},
  )
  assert sequences.total([]) == sequences.Counts()
