"""Which documents are taken, by hand."""

import dataclasses
import json

import pytest

from ctrl_jax import config
from ctrl_jax.data import documents, selection, settings, sources

SOURCE = sources.Source.from_config(config.source("text", "A", path="a"))
SETTINGS = settings.Settings(
    sources=(SOURCE,), sequence_length=8, max_unknown=2,
    validation_fraction=0.2, test_fraction=0.2, seed=0,
)


def document(text, attribute=""):
  return documents.Document("", text, False, attribute)


def selected(**fields):
  return selection.Selection(dataclasses.replace(SETTINGS, **fields))


def fate(selection_, text, source=SOURCE):
  d = document(text)
  digest = selection_.digest(d)
  return selection_.before(d, digest) or selection_.after(source, d, digest)


def test_what_is_dropped_and_why(tmp_path):
  file = tmp_path / "held_out.jsonl"
  file.write_text(json.dumps({"text": "a held out passage of text"}) + "\n")
  all_of_it = selected(exclude=(str(file),))
  assert fate(all_of_it, " \n") == "empty"
  assert fate(all_of_it, "So: a held  out passage of text.") == (
      "", "excluded"
  )
  texts = [f"text {i}" for i in range(200)]
  splits = {fate(all_of_it, t) for t in texts}
  assert splits == {("train", ""), ("validation", ""), ("test", "")}
  # A part of the training documents, all of the others.
  some = selected(train_share=0.5)
  fates = [(fate(all_of_it, t), fate(some, t)) for t in texts]
  assert ("train", "not_in_train_share") in {b for _, b in fates}
  assert all(a == b for a, b in fates if a[0] != "train")
  # Two shares hold each document once.
  halves = [selected(share=s) for s in ((0.0, 0.5), (0.5, 1.0))]
  dropped = [[fate(h, t) == "not_in_share" for t in texts] for h in halves]
  assert all(a != b for a, b in zip(*dropped, strict=True))


def test_a_source_of_one_split():
  source = dataclasses.replace(SOURCE, split="test")
  assert fate(selected(), "text", source) == ("test", "")


def test_duplicates_have_text_and_attribute_in_common():
  s = selected()
  a, b, c = document("x", "1"), document("x", "2"), document("x", "1")
  assert s.identity(a) == s.identity(c) != s.identity(b)
  assert s.digest(a) == s.digest(b)  # So both lie in one split.


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_tokenizer_learns_from_training_documents(share):
  s = selected()
  texts = [document(f"text {i}") for i in range(400)]
  learnt = [
      d for d in texts
      if s.is_learnt_from(SOURCE, d, s.digest(d), share)
  ]
  trained = [d for d in texts if s.after(SOURCE, d, s.digest(d))[0] == "train"]
  assert set(learnt) <= set(trained)
  assert len(learnt) == pytest.approx(share * len(trained), rel=0.25)
