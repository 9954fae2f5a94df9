"""TFRecords as a data set where they lie."""

import itertools

import numpy as np
import pytest

from ctrl_jax import config, errors, prepare
from ctrl_jax.data import batches, index_tfrecords, records
from ctrl_jax.evaluation import documents
from ctrl_jax.interop import tfrecords
from ctrl_jax.text import learn_bpe


@pytest.fixture
def c(tmp_path):
  """A configuration over three files, one gzipped and one without a code."""
  tok = learn_bpe.train(["the cat sat on the mat by the dog"], ["Legal"], 9)
  tok.save(tmp_path / "tok")
  rng = np.random.default_rng(0)
  known = tok.unknown_id

  def rows(count, *code):
    return [
        [*code, *rng.integers(0, known, rng.integers(2, 8)), *divmod(i, known)]
        for i in range(count)
    ]

  (code,) = tok.code_ids("Legal")
  tfrecords.write(tmp_path / "a1.tfrecords", rows(30, code))
  tfrecords.write(tmp_path / "a2.tfrecords", rows(20, code), gzipped=True)
  tfrecords.write(tmp_path / "plain.tfrecords", rows(25))
  c = config.default()
  c.data.folder = str(tmp_path / "index")
  c.data.sequence_length = 12
  c.data.tfrecords = (
      f"Legal={tmp_path}/a*.tfrecords", f"={tmp_path}/plain.tfrecords"
  )
  c.tokenizer.path = str(tmp_path / "tok")
  return c


def ids(row):
  return row["tokens"][: row["length"]].tolist()


def test_every_record_once(c, tmp_path):
  manifest = index_tfrecords.make(c)
  assert manifest.codes == ("Legal",) and manifest.vocab_size > 10
  assert manifest.labels == ["Legal", "(no code)"]
  found = [
      ids(row) for split in ("train", "validation", "test")
      for row in records.open_split(manifest.folder, split)
  ]
  expected = [
      row.tolist() for name in ("a1", "a2", "plain")
      for row in tfrecords.rows(tmp_path / f"{name}.tfrecords")
  ]
  assert sorted(found) == sorted(expected)
  assert sum(manifest.size(s) for s in ("train", "validation", "test")) == 75
  assert index_tfrecords.make(c) == manifest  # It is there already.
  # As for a prepared data set, without any text.
  assert list(documents.read(manifest.documents_file("test"))) == []


def test_the_batches_are_those_of_a_prepared_data_set(c, tmp_path):
  manifest = index_tfrecords.make(c)
  c.data.folder = str(tmp_path / "prepared")
  c.data.sources = tuple(
      config.source("tfrecords", code, path=path)
      for code, _, path in (x.partition("=") for x in c.data.tfrecords)
  )
  c.data.tfrecords = ()
  other = prepare.prepare(c)
  assert manifest.prior == other.prior
  a = batches.TrainBatches(manifest, 4, seed=3)
  b = batches.TrainBatches(other, 4, seed=3)
  for step, batch in enumerate(itertools.islice(a.iterate(5), 20), 5):
    expected = b.batch(step)
    for key, value in batch.items():
      np.testing.assert_array_equal(value, expected[key])
  a = list(batches.evaluation_batches(manifest, "validation", 4))
  b = list(batches.evaluation_batches(other, "validation", 4))
  np.testing.assert_array_equal(a[0]["tokens"], b[0]["tokens"])


def test_files_that_changed_since(c, tmp_path):
  manifest = index_tfrecords.make(c)
  file = tmp_path / "a1.tfrecords"
  whole = file.read_bytes()
  broken = bytearray(whole)
  for i in range(20, len(broken), 50):  # In every record.
    broken[i] ^= 1
  file.write_bytes(broken)
  data = records.open_split(manifest.folder, "train")
  with pytest.raises(errors.UserError, match=r"a1\.tfrecords, byte \d+: damag"):
    list(data)
  file.write_bytes(whole[:-1])
  with pytest.raises(errors.UserError, match="bytes were indexed: put it back"):
    records.open_split(manifest.folder, "train")
  file.unlink()
  with pytest.raises(errors.UserError, match="is gone"):
    records.open_split(manifest.folder, "train")


def test_a_damaged_index_of_the_same_size(c):
  file = index_tfrecords.make(c).folder / "train.npy"
  content = bytearray(file.read_bytes())
  content[-32] ^= 1  # The last record's file.
  file.write_bytes(content)
  with pytest.raises(errors.UserError, match=r"train\.npy.*delete its folder"):
    index_tfrecords.make(c)


@pytest.mark.parametrize(
    "change, says",
    [
        (dict(sequence_length=4), "a1.tfrecords, byte .* tokens: raise"),
        (dict(tfrecords=("Legal",)), "must be CODE=PATH"),
        (dict(tfrecords=("Legal=",)), "must be CODE=PATH"),
        (dict(tfrecords=("Legal=none*",)), "No file 'none"),
        (dict(tfrecords=("the=HERE/a1.tfrecords",)), "not with 'the'"),
        (dict(max_unknown=-1), "max_unknown"),
        (dict(train_share=0.5), "data.train_share=0.5 is of documents"),
    ],
)
def test_bad_input_leaves_nothing_behind(c, tmp_path, change, says):
  if "tfrecords" in change:
    change["tfrecords"] = tuple(
        x.replace("HERE", str(tmp_path)) for x in change["tfrecords"]
    )
  c.data.update(change)
  with pytest.raises(errors.UserError, match=says):
    index_tfrecords.make(c)
  assert not (tmp_path / "index").exists()


def test_without_a_tokenizer_or_of_another(c, tmp_path):
  other = learn_bpe.train(["ab"], ["Legal"], 1)
  other.save(tmp_path / "tok")
  with pytest.raises(errors.UserError, match="begins with|outside the voc"):
    index_tfrecords.make(c)
  c.tokenizer.path = ""
  with pytest.raises(errors.UserError, match="set tokenizer.path"):
    index_tfrecords.make(c)


def test_another_configuration(c):
  index_tfrecords.make(c)
  c.data.seed = 1
  with pytest.raises(errors.UserError, match=r"data\.seed.*delete that folder"):
    index_tfrecords.make(c)
  with pytest.raises(errors.UserError, match="nothing to prepare"):
    prepare.prepare(c)
