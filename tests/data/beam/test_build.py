"""Data sets made by many machines are those of one machine."""

import shutil

import beam_options
import fake_bucket
import numpy as np
import pytest

from ctrl_jax import config, errors, prepare
from ctrl_jax.data import records

pytest.importorskip("apache_beam", reason="needs the extra `beam`")


def copy_of(one_machine, folder, **data):
  c = config.default()
  c.update(one_machine[0])
  c.data.folder = str(folder)
  c.data.update(data)
  return c


def texts(folder):
  files = sorted((folder / "documents").iterdir())
  return {file.name: file.read_bytes() for file in files}


@pytest.mark.parametrize(
    "options", [beam_options.ONE, beam_options.TWO], ids=["one", "two"]
)
def test_as_on_one_machine(one_machine, tmp_path, options):
  c = copy_of(one_machine, tmp_path / "set")
  expected = one_machine[1]
  if options != beam_options.ONE:  # There it is learnt, too.
    c.tokenizer.path = str(expected.tokenizer_folder)
  made = prepare.prepare(c, beam_pipeline_options=options)
  # What is compared has all kinds of what can be dropped.
  assert {r for s in expected.sources for r in s.dropped_documents} == {
      "duplicate", "empty", "excluded", "not_in_share", "not_in_train_share",
  }
  assert sum(
      n for s in expected.sources for counts in s.splits.values()
      for n in counts.dropped_sequences.values()
  )
  assert made.hash == expected.hash and made.sources == expected.sources
  assert made.prior == expected.prior
  assert made.attributes == expected.attributes == ("calm", "wild")
  assert texts(made.folder) == texts(expected.folder)
  for split in ("train", "validation", "test"):
    ours, theirs = (
        records.open_split(m.folder, split) for m in (made, expected)
    )
    assert len(ours) == len(theirs) > 10
    for a, b in zip(ours, theirs, strict=True):
      np.testing.assert_equal(a, b)
  made.verify()
  assert sorted(p.name for p in tmp_path.iterdir()) == ["set"]
  # Prepared already, by either.
  assert prepare.prepare(c).hash == made.hash


def test_in_a_bucket(one_machine, tmp_path, monkeypatch):
  monkeypatch.setenv("CTRL_JAX_CACHE", str(tmp_path / "cache"))
  bucket = fake_bucket.make(tmp_path, monkeypatch)
  inputs = one_machine[1].folder.parent / "inputs"
  shutil.copytree(inputs, bucket / "inputs")

  def moved(path):
    return path.replace(str(inputs), "gs://bucket/inputs")

  c = copy_of(one_machine, "gs://bucket/sets/a")
  c.data.sources = tuple(
      s | dict(path=tuple(map(moved, s["path"]))) for s in c.data.sources
  )
  c.data.exclude = tuple(map(moved, c.data.exclude))
  made = prepare.prepare(c, beam_pipeline_options=beam_options.ONE)
  assert made.hash == one_machine[1].hash
  there = bucket / "sets" / "a"
  assert sorted(
      p.relative_to(there).as_posix() for p in there.rglob("*") if p.is_file()
  ) == sorted([*made.files, "manifest.json"])
  assert not (tmp_path / "cache" / "data").exists()  # Nothing was copied here.
  assert prepare.prepare(c).hash == made.hash  # It is found, copied and whole.
  # Not a second time, and not half.
  c.data.seed = 1
  with pytest.raises(errors.UserError, match="configuration: data.seed"):
    prepare.prepare(c, beam_pipeline_options=beam_options.ONE)


def test_errors_leave_nothing(one_machine, tmp_path):
  source = one_machine[0].data.sources[2]
  bad = tmp_path / "bad.jsonl"
  bad.write_text('{"text": "a"}\n{"words": "b"}\n')
  for data, message in (
      (dict(sources=(source | dict(path=(str(bad),)),)),
       "bad.jsonl:2.*no field 'text'"),
      (dict(sources=(source,), test_fraction=1e-9),
       "no sequences for the split 'test'"),
      (dict(attribute_length=1), "raise data.attribute_length=1"),
      (dict(sources=(source | dict(kind="tfrecords"),), train_share=1.0),
       "holds token ids"),
  ):
    c = copy_of(one_machine, tmp_path / "set", exclude=(), **data)
    with pytest.raises(errors.UserError, match=message) as e:
      prepare.prepare(c, beam_pipeline_options=beam_options.ONE)
    assert "while running" not in str(e.value)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.jsonl"]
