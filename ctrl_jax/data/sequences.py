"""Token ids of documents -> rows of one width, nothing lost silently.

Letters in shapes: N rows, W = sequence_length + 1 their width. A row is the
ids of the control code, then text; a model reads row[:-1] and predicts
row[1:], so every text token is a target once and the code never is. Without a
code a row is text alone, and its first token no target: nothing stands before
it.
"""

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
  """Sequences that are ready to be written.

  Attributes:
    tokens: int32 [N, W], the code, the text, then zeros.
    weights: uint8 [N, W], 1 where the loss counts the token as a target.
    length: int32 [N], tokens that are no padding, the code included.
  """

  tokens: np.ndarray
  weights: np.ndarray
  length: np.ndarray

  def take(self, keep: np.ndarray) -> "Rows":
    """Returns the rows where the mask `keep` [N] holds."""
    return Rows(*(a[keep] for a in self))


def cut(tokens: np.ndarray, weights: np.ndarray, code_ids, width: int) -> Rows:
  """Cuts a stretch of text into rows; the last is padded.

  Args:
    tokens: int32 [n], the text.
    weights: uint8 [n].
    code_ids: ids in front of every row, fewer than `width`; none without a
      code.
    width: W.
  """
  code = np.asarray(code_ids, np.int32)
  size = width - code.size
  count = -(-tokens.size // size)
  rows = Rows(
      np.zeros((count, width), np.int32),
      np.zeros((count, width), np.uint8),
      np.full(count, width, np.int32),
  )
  rows.tokens[:, : code.size] = code
  for row, array in ((rows.tokens, tokens), (rows.weights, weights)):
    padded = np.zeros(count * size, row.dtype)
    padded[: array.size] = array
    row[:, code.size :] = padded.reshape(count, size)
  rows.weights[:, 0] = 0
  if count:
    rows.length[-1] -= count * size - tokens.size
  return rows


# Rows that a stream cuts at once: one by one would take twice the time.
_ROWS = 64


class Stream:
  """A domain: one stream of tokens, cut wherever a row is full.

  Args:
    code_ids: ids in front of every row.
    width: W.
  """

  def __init__(self, code_ids, width: int):
    self._code_ids = code_ids
    self._width = width
    self._size = width - len(code_ids)
    self._pending = []
    self._pending_size = 0

  def add(self, tokens: np.ndarray) -> Rows | None:
    """Appends text, int32 [n]; now and then returns rows that are full."""
    self._pending.append(tokens)
    self._pending_size += tokens.size
    if self._pending_size < _ROWS * self._size:
      return None
    tokens = np.concatenate(self._pending)
    full = tokens.size - tokens.size % self._size
    self._pending = [tokens[full:].copy()]
    self._pending_size = tokens.size - full
    return self._cut(tokens[:full])

  def close(self) -> Rows | None:
    """Returns the rows that are left, the last padded."""
    return self._cut(np.concatenate(self._pending)) if self._pending else None

  def _cut(self, tokens: np.ndarray) -> Rows:
    weights = np.ones(tokens.size, np.uint8)
    return cut(tokens, weights, self._code_ids, self._width)


@dataclasses.dataclass
class Counts:
  """What became of a source's documents in a split.

  `tokens` and `unknown` count text (ends of documents included, codes and
  padding not) in the sequences that are kept.
  """

  documents: int = 0
  tokens: int = 0
  sequences: int = 0
  unknown: int = 0
  dropped_sequences: dict[str, int] = dataclasses.field(default_factory=dict)
  dropped_tokens: dict[str, int] = dataclasses.field(default_factory=dict)


def total(counts: Iterable[Counts]) -> Counts:
  """Returns the sum of counts of parts."""
  found = Counts()
  for part in counts:
    for name, value in vars(part).items():
      if isinstance(value, dict):
        for key, number in value.items():
          _add(getattr(found, name), key, number)
      else:
        setattr(found, name, getattr(found, name) + value)
  return found


def select(
    rows: Rows,
    counts: Counts,
    code_size: int,
    unknown_id: int | None,
    max_unknown: int,
) -> Rows:
  """Returns the rows worth keeping and adds all of them to `counts`.

  Rows with more than `max_unknown` unknown tokens are dropped
  ("unknown_tokens"), and those without a target ("no_target").
  """
  text = np.arange(rows.tokens.shape[1]) < rows.length[:, None]
  text[:, :code_size] = False
  sizes = text.sum(1)
  unknown = np.zeros_like(sizes)
  if unknown_id is not None:
    unknown = ((rows.tokens == unknown_id) & text).sum(1)
  too_many = unknown > max_unknown
  no_target = ~too_many & ~rows.weights.any(1)
  for reason, mask in (("unknown_tokens", too_many), ("no_target", no_target)):
    if mask.any():
      _add(counts.dropped_sequences, reason, mask.sum())
      _add(counts.dropped_tokens, reason, sizes[mask].sum())
  keep = ~(too_many | no_target)
  counts.sequences += int(keep.sum())
  counts.tokens += int(sizes[keep].sum())
  counts.unknown += int(unknown[keep].sum())
  return rows.take(keep)


def truncate(rows: Rows, counts: Counts, code_size: int) -> Rows:
  """Returns the first row of a document; the others count as "truncated"."""
  rest = rows.length[1:] - code_size
  if rest.size:
    _add(counts.dropped_sequences, "truncated", rest.size)
    _add(counts.dropped_tokens, "truncated", rest.sum())
  return Rows(*(array[:1] for array in rows))


def _add(totals: dict[str, int], key: str, value) -> None:
  totals[key] = totals.get(key, 0) + int(value)
