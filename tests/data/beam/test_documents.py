"""The pieces of work, and which document of several is the first."""

import pytest

from ctrl_jax import config, errors
from ctrl_jax.data import sources

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

from apache_beam import pvalue  # noqa: E402

from ctrl_jax.data import settings as settings_lib  # noqa: E402
from ctrl_jax.data.beam import documents  # noqa: E402


def source(kind, path, **fields):
  return sources.Source.from_config(
      config.source(kind, "A", path=path, **fields)
  )


def test_a_file_is_a_part(tmp_path, monkeypatch):
  monkeypatch.setenv("BEAM_TEST", str(tmp_path))
  files = [str(tmp_path / f"{i}.txt") for i in range(3)]
  for file in files:
    with open(file, "w") as f:
      f.write("text")
  whole = source("text", "$BEAM_TEST/*.txt")
  assert documents.parts(whole) == [(f,) for f in files]
  # These need to know what comes before, or are no files.
  first = source("text", "$BEAM_TEST/*.txt", max_documents=2)
  assert documents.parts(first) == [(f"{tmp_path}/*.txt",)]
  assert documents.parts(source("docs", "jax")) == [("jax",)]
  with pytest.raises(errors.UserError, match="holds sequences"):
    documents.parts(source("tfrecords", files[0]))
  with pytest.raises(errors.UserError, match="No file"):
    documents.parts(source("text", "$BEAM_TEST/*.md"))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_the_first_of_duplicates_stays(order):
  places = [(0, 1, 5), (0, 2, 0), (1, 0, 0)]
  found = list(
      documents._first((b"key", [(places[i], b"", str(i)) for i in order]))
  )
  [kept] = [f for f in found if not isinstance(f, pvalue.TaggedOutput)]
  assert kept[2] == "0"
  dropped = [f.value for f in found if isinstance(f, pvalue.TaggedOutput)]
  assert sorted(dropped) == [(0, "duplicate"), (1, "duplicate")]


def test_other_machines_reach_buckets_alone(tmp_path):
  def check(path, folder, runner="DataflowRunner"):
    settings = settings_lib.Settings(
        sources=(source("text", path), source("docs", "jax")),
        sequence_length=8, max_unknown=2, validation_fraction=0.0,
        test_fraction=0.0, seed=0,
    )
    documents.check_is_reachable(settings, folder, runner)

  check("gs://bucket/a.txt", "gs://bucket/set")
  check("a.txt", "set", runner="FlinkRunner")
  with pytest.raises(errors.UserError, match="'set' is on this machine"):
    check("gs://bucket/a.txt", "set")
  with pytest.raises(errors.UserError, match="'a.txt' is on this machine"):
    check("a.txt", "gs://bucket/set")
