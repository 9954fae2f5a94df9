"""The splits that are written."""

import dataclasses

import pytest

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

from ctrl_jax import config  # noqa: E402
from ctrl_jax.data import settings as settings_lib  # noqa: E402
from ctrl_jax.data import sources  # noqa: E402
from ctrl_jax.data.beam import builder  # noqa: E402


def source(split="", kind="text"):
  return sources.Source.from_config(
      config.source(kind, "A", path="a", split=split)
  )


def test_splits_that_get_documents():
  settings = settings_lib.Settings(
      sources=(source(),), sequence_length=8, max_unknown=2,
      validation_fraction=0.1, test_fraction=0.0, seed=0,
  )
  assert builder.splits(settings) == ["train", "validation"]
  one = dataclasses.replace(settings, sources=(source("test"),))
  assert builder.splits(one) == ["test"]
  both = dataclasses.replace(settings, sources=(source("test"), source()))
  assert builder.splits(both) == ["train", "validation", "test"]
  # tensorflow-datasets' own split is where documents are read from.
  tfds = dataclasses.replace(settings, sources=(source("test", "tfds"),))
  assert builder.splits(tfds) == ["train", "validation"]
