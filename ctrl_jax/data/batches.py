"""Records -> batches; the position in the data is a function of (seed, step).

Letters in shapes: B batch, b the rows of it that a process reads, W =
sequence_length + 1 the width of a record. A model reads tokens[:, :-1] and
predicts tokens[:, 1:], counted by weights[:, 1:].
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import grain
import jax
import numpy as np

from ctrl_jax import errors
from ctrl_jax.data import manifest as manifest_lib
from ctrl_jax.data import records

Batch = dict[str, np.ndarray]


class Extra(Protocol):
  """Fields of training records that lie elsewhere."""

  def __getitem__(self, index: int) -> Batch: ...


class TrainBatches:
  """Endless training batches, mixed from all sources.

  Each source is shuffled anew every time it has been gone through. A source
  appears in proportion to its number of records times its weight. Batch
  `step` depends on the data set, the batch size, the seed and the step alone:
  each process reads some rows of the same batch.

  Args:
    manifest: the data set.
    batch_size: B, over all processes.
    seed: of the order, at least 0.
    rows: which rows of each batch to read, in this order; None for all.
    extra: a record's place in the training split -> fields beside its own.

  Raises:
    errors.UserError: all weights are 0.
  """

  def __init__(
      self,
      manifest: manifest_lib.Manifest,
      batch_size: int,
      seed: int,
      rows: Sequence[int] | None = None,
      extra: Extra | None = None,
  ):
    mixed = _mix(manifest, seed, extra)
    if rows is not None and list(rows) != list(range(batch_size)):
      mixed = grain.MapDataset.source(_Rows(mixed, batch_size, rows))
      batch_size = len(rows)
    self._batches = mixed.batch(batch_size, drop_remainder=True)

  def batch(self, step: int) -> Batch:
    """Returns a batch.

    Returns:
      tokens int32 [b, W], weights uint8 [b, W], source int32 [b]; and, if the
      data set has attributes, attribute int32 [b, A], padded on the right, and
      attribute_length int32 [b].
    """
    return _typed(self._batches[step])

  def iterate(self, start_step: int = 0, prefetch: int = 4) -> Iterator[Batch]:
    """Yields the batches from `start_step` on, read ahead by a thread.

    Args:
      start_step: the first batch.
      prefetch: batches to read ahead.
    """
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=prefetch)
    rest = self._batches[start_step:].to_iter_dataset(read_options=options)
    return map(_typed, rest)


def shapes(config: Any) -> dict[str, jax.ShapeDtypeStruct]:
  """Returns what `TrainBatches.batch` has for one process, but for `source`.

  Args:
    config: see `ctrl_jax.config.default`.
  """
  batch, data = config.train.batch_size, config.data
  found = {
      "tokens": ((batch, data.sequence_length + 1), np.int32),
      "weights": ((batch, data.sequence_length + 1), np.uint8),
  }
  if data.attribute_length:
    found["attribute"] = (batch, data.attribute_length), np.int32
    found["attribute_length"] = (batch,), np.int32
  return {k: jax.ShapeDtypeStruct(*v) for k, v in found.items()}


class _Rows:
  """Some rows of each batch of `data`, one after the other: grain's source."""

  def __init__(self, data, batch_size, rows):
    self._data = data
    self._batch_size = batch_size
    self._rows = [int(row) for row in rows]

  def __len__(self):
    return len(self._data) // self._batch_size * len(self._rows)

  def __getitem__(self, index):
    batch, place = divmod(int(index), len(self._rows))
    return self._data[batch * self._batch_size + self._rows[place]]


def evaluation_batches(
    manifest: manifest_lib.Manifest,
    split: str,
    batch_size: int,
    max_sequences: int = 0,
) -> Iterator[Batch]:
  """Yields each record of a split once, in order.

  Args:
    manifest: the data set.
    split: "train", "validation" or "test".
    batch_size: rows a batch; the last is filled up with rows of weight 0.
    max_sequences: how many records at most, shared out evenly over the
      sources and spread evenly over each; 0 means all.

  Yields:
    tokens int32 [B, W], weights uint8 [B, W], source int32 [B]; attributes as
    `TrainBatches.batch`.
  """
  data = records.open_split(manifest.folder, split)
  chosen = evaluation_indices(manifest, split, max_sequences)
  for start in range(0, len(chosen), batch_size):
    rows = [_needed(data[i]) for i in chosen[start : start + batch_size]]
    blank = {k: np.zeros_like(v) for k, v in rows[0].items()}
    rows += [blank] * (batch_size - len(rows))
    yield _typed({k: np.stack([row[k] for row in rows]) for k in blank})


def evaluation_indices(
    manifest: manifest_lib.Manifest, split: str, max_sequences: int = 0
) -> list[int]:
  """Returns the places of the records `evaluation_batches` goes over."""
  ranges = [s.ranges[split] for s in manifest.sources]
  sizes = [end - start for start, end in ranges]
  shares = _even_shares(sizes, max_sequences or sum(sizes))
  chosen = []
  for (start, _), size, share in zip(ranges, sizes, shares, strict=True):
    chosen += [start + i * size // share for i in range(share)]
  return chosen


def _even_shares(sizes: list[int], total: int) -> list[int]:
  """Shares `total` out evenly, none more than its size."""
  if total >= sum(sizes):
    return list(sizes)
  shares = [0] * len(sizes)
  left = total
  while left:
    for i, size in enumerate(sizes):
      if left and shares[i] < size:
        shares[i] += 1
        left -= 1
  return shares


class _Wider:
  """Records with fields of another source beside their own."""

  def __init__(self, data: Any, extra: Extra):
    self._data, self._extra = data, extra

  def __len__(self) -> int:
    return len(self._data)

  def __getitem__(self, index: int) -> dict[str, np.ndarray]:
    return {**self._data[index], **self._extra[index]}


def _mix(
    manifest: manifest_lib.Manifest, seed: int, extra: Extra | None
) -> grain.MapDataset:
  data = records.open_split(manifest.folder, "train")
  if extra is not None:
    data = _Wider(data, extra)
  parts, weights = [], []
  for index, source in enumerate(manifest.sources):
    start, end = source.ranges["train"]
    weight = (end - start) * source.weight
    if weight > 0:
      part = grain.MapDataset.source(data)[start:end].map(_needed)
      state = np.random.SeedSequence([seed, index]).generate_state(1)
      parts.append(part.shuffle(seed=int(state[0])).repeat())
      weights.append(weight)
  if not parts:
    raise errors.UserError(
        f"The data set {str(manifest.folder)!r} has no training records with a"
        " weight above 0."
    )
  return grain.MapDataset.mix(parts, weights=weights)


def _needed(record: dict) -> dict:
  return {k: v for k, v in record.items() if k != "length"}


def _typed(batch: dict) -> Batch:
  scalars = {
      k: np.asarray(v, np.int32) for k, v in batch.items() if np.ndim(v) == 1
  }
  return {**batch, **scalars}
