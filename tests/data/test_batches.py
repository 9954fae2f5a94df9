"""Batches are a function of (seed, step), whatever reads them."""

import collections
import dataclasses
import itertools

import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.data import batches, records


def equal(a, b):
  assert a.keys() == b.keys()
  for key in a:
    np.testing.assert_array_equal(a[key], b[key])


def test_shapes_and_determinism(prepared):
  manifest = prepared[1]
  one = batches.TrainBatches(manifest, 6, seed=1)
  batch = one.batch(5)
  shapes = {k: (v.shape, v.dtype.name) for k, v in batch.items()}
  assert shapes == {
      "tokens": ((6, 17), "int32"),
      "weights": ((6, 17), "uint8"),
      "source": ((6,), "int32"),
  }
  equal(batch, batches.TrainBatches(manifest, 6, seed=1).batch(5))
  other = batches.TrainBatches(manifest, 6, seed=2).batch(5)
  assert (other["tokens"] != batch["tokens"]).any()
  one.batch(10**7)  # Far away is as near as the next.


def test_shapes_without_a_data_set(prepared):
  config, manifest = prepared
  batch = batches.TrainBatches(manifest, config.train.batch_size, 0).batch(0)
  shapes = batches.shapes(config)
  assert {k: (v.shape, v.dtype) for k, v in shapes.items()} == {
      k: (v.shape, v.dtype) for k, v in batch.items() if k != "source"
  }
  with_attributes = config.copy_and_resolve_references()
  with_attributes.data.attribute_length = 3
  shapes = batches.shapes(with_attributes)
  size = config.train.batch_size
  assert shapes["attribute"].shape == (size, 3)
  assert shapes["attribute_length"].shape == (size,)


def test_iterating_resumes_anywhere(prepared):
  data = batches.TrainBatches(prepared[1], 4, seed=0)
  steps = list(itertools.islice(data.iterate(), 12))
  for step, batch in enumerate(itertools.islice(data.iterate(7), 5), 7):
    equal(batch, steps[step])
    equal(batch, data.batch(step))


@pytest.mark.parametrize("rows", [
    [[0, 1, 2, 3], [4, 5, 6, 7]],  # Two processes.
    [[0, 1, 4, 5], [2, 3, 6, 7]],  # Their devices alternate.
    [[3], [0, 1, 2, 4, 5, 6, 7]],
])
def test_processes_read_rows_of_the_same_batches(prepared, rows):
  manifest = prepared[1]
  whole = batches.TrainBatches(manifest, 8, seed=3)
  for numbers in rows:
    part = batches.TrainBatches(manifest, 8, 3, numbers)
    for step in (0, 9, 10**6):
      expected = whole.batch(step)
      equal(part.batch(step), {k: v[numbers] for k, v in expected.items()})
    for step, batch in enumerate(itertools.islice(part.iterate(7), 3), 7):
      equal(batch, part.batch(step))


def test_mix_follows_sizes_times_weights(prepared):
  manifest = prepared[1]
  sizes = np.array([
      (s.ranges["train"][1] - s.ranges["train"][0]) * s.weight
      for s in manifest.sources
  ])
  data = batches.TrainBatches(manifest, 100, seed=0)
  drawn = np.concatenate([data.batch(i)["source"] for i in range(20)])
  shares = np.bincount(drawn, minlength=3) / drawn.size
  np.testing.assert_allclose(shares, sizes / sizes.sum(), atol=0.01)


def test_an_epoch_holds_every_record_once_and_the_next_another_order(prepared):
  manifest = prepared[1]
  only = dataclasses.replace(
      manifest,
      sources=tuple(
          dataclasses.replace(s, weight=float(i == 1))
          for i, s in enumerate(manifest.sources)
      ),
  )
  start, end = manifest.sources[1].ranges["train"]
  size = end - start
  data = batches.TrainBatches(only, 1, seed=0)
  order = [data.batch(i)["tokens"].tobytes() for i in range(2 * size)]
  stored = records.open_split(manifest.folder, "train")
  expected = collections.Counter(
      stored[i]["tokens"].tobytes() for i in range(start, end)
  )
  assert collections.Counter(order[:size]) == expected
  assert collections.Counter(order[size:]) == expected
  assert order[:size] != order[size:]
  none = dataclasses.replace(
      manifest,
      sources=tuple(dataclasses.replace(s, weight=0.0) for s in only.sources),
  )
  with pytest.raises(errors.UserError, match="no training records"):
    batches.TrainBatches(none, 1, seed=0)


def test_evaluation_goes_over_everything_once(prepared):
  manifest = prepared[1]
  found = list(batches.evaluation_batches(manifest, "validation", 7))
  assert {b["tokens"].shape for b in found} == {(7, 17)}
  tokens = np.concatenate([b["tokens"] for b in found])
  weights = np.concatenate([b["weights"] for b in found])
  size = manifest.size("validation")
  stored = records.open_split(manifest.folder, "validation")
  np.testing.assert_array_equal(tokens[:size], [r["tokens"] for r in stored])
  np.testing.assert_array_equal(weights[:size], [r["weights"] for r in stored])
  assert len(tokens) - size < 7 and not weights[size:].any()


def test_evaluation_of_a_part_is_even_over_sources(prepared):
  manifest = prepared[1]
  chosen = batches.evaluation_indices(manifest, "validation", 10)
  assert len(set(chosen)) == 10
  sizes = []
  for source in manifest.sources:
    start, end = source.ranges["validation"]
    sizes.append(sum(start <= i < end for i in chosen))
  assert max(sizes) - min(sizes) <= 1
  everything = manifest.size("validation")
  assert len(batches.evaluation_indices(manifest, "validation")) == everything
  assert (
      batches.evaluation_indices(manifest, "validation", 10**6)
      == list(range(everything))
  )
