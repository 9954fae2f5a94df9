"""Where blocks of documents begin, by hand; `test_build` compares the rows."""

import pytest

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

import types  # noqa: E402

import numpy as np  # noqa: E402

from ctrl_jax import config  # noqa: E402
from ctrl_jax.data import settings, sources  # noqa: E402
from ctrl_jax.data.beam import rows  # noqa: E402


def test_starts_of_blocks():
  sizes = [  # (split, source, part, number), tokens; in no order.
      (("train", 0, 1, 0), 7),
      (("test", 0, 0, 0), 5),
      (("train", 2, 0, 0), 3),
      (("train", 0, 0, 1), 4),
      (("train", 1, 0, 3), 2),
      (("train", 0, 0, 0), 10),
  ]
  # Rows of 10 tokens; those of source 1 are documents.
  starts = rows.starts_of(sizes, {0: 10, 1: 1, 2: 10}.__getitem__)
  assert starts == {
      ("test", 0, 0, 0): (0, 0),
      ("train", 0, 0, 0): (0, 0),
      ("train", 0, 0, 1): (0, 10),
      ("train", 0, 1, 0): (0, 14),
      ("train", 1, 0, 3): (3, 0),  # 21 tokens are 3 rows.
      ("train", 2, 0, 0): (5, 0),
  }


def test_a_document_without_tokens_has_no_row():
  """It would stand at the next one's place, and give it its attribute."""
  source = sources.Source.from_config(
      config.source("jsonl", "", path="a", attribute="{tone}")
  )
  cutter = rows._Cutter(
      settings.Settings(
          sources=(source,), sequence_length=3, max_unknown=2,
          validation_fraction=0.0, test_fraction=0.0, seed=0,
          attribute_length=2,
      ),
      types.SimpleNamespace(unknown_id=0, begin_ids=()), "folder",
  )
  ones = lambda size: (np.ones(size, np.int32), np.ones(size, np.uint8))
  encoded = [
      (i, *ones(size), np.array([i], np.int32))
      for i, size in enumerate((5, 0, 4))
  ]
  name = ("train", 0, 0, 0)
  block = cutter.sort((name, reversed(encoded)))
  assert block[1] == 3  # Rows of 4: two, none, one.
  pieces = list(cutter.pieces(block, {name: (7, 0)}))
  assert [(row[2], int(piece[3][0])) for row, piece in pieces] == [
      (7, 0), (9, 2)
  ]
