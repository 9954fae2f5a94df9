"""Choosing held-out documents."""

import collections

import evaluation_fakes as fakes
import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import documents


def select(manifest, **kwargs):
  fields = dict(min_tokens=1, max_tokens=0, max_documents=99)
  return documents.select(
      manifest.documents_file("test"), fakes.tokenizer(), fakes.CODES,
      **fields | kwargs,
  )


@pytest.fixture
def manifest(tmp_path):
  return fakes.write_dataset(tmp_path / "data", documents=9)


def test_all_documents(manifest):
  found = select(manifest)
  assert len(found) == 27
  assert found[0].code == "Cats"
  assert fakes.tokenizer().decode(found[0].ids) == found[0].text


def test_limits(manifest):
  found = select(manifest, max_documents=4, max_tokens=10)
  assert collections.Counter(d.code for d in found) == dict.fromkeys(
      fakes.CODES, 4
  )
  assert {len(d.ids) for d in found} == {10}
  # The text is cut with the ids: others must not see more than the model.
  assert all(fakes.tokenizer().decode(d.ids) == d.text for d in found)
  assert found == select(manifest, max_documents=4, max_tokens=10)
  assert found != select(manifest, max_documents=4, max_tokens=10, seed=1)


def test_short_documents_are_left_out(manifest):
  lengths = sorted(len(d.ids) for d in select(manifest))
  middle = lengths[len(lengths) // 2]
  found = sorted(len(d.ids) for d in select(manifest, min_tokens=middle))
  assert found == [n for n in lengths if n >= middle]


def test_missing_file(tmp_path):
  with pytest.raises(errors.UserError, match="No documents"):
    list(documents.read(tmp_path / "test.jsonl.gz"))


@pytest.mark.parametrize("line", ["{", '{"code": "a"}', "[1]"])
def test_damaged_line(tmp_path, line):
  file = tmp_path / "test.jsonl"
  file.write_text('{"code": "a", "text": "b"}\n' + line + "\n")
  with pytest.raises(errors.UserError, match="test.jsonl:2"):
    list(documents.read(file))
