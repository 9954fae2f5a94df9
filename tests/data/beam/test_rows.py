"""Where blocks of documents begin, by hand; `test_build` compares the rows."""

import pytest

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

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
