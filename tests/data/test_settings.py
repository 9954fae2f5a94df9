"""Settings of a data set are checked when they are made."""

import dataclasses

import pytest

from ctrl_jax import config, errors
from ctrl_jax.data import documents, settings, sources


def source(code="A", kind="text", **fields):
  return sources.Source.from_config(
      config.source(kind, code, path="a", **fields)
  )


GOOD = settings.Settings(
    sources=(source(), source("B c"), source()), sequence_length=3,
    max_unknown=2, validation_fraction=0.1, test_fraction=0.1, seed=0,
)


def test_codes_are_each_named_once():
  assert GOOD.codes == ("A", "B c")
  none = dataclasses.replace(GOOD, sources=(source(""), source()))
  assert none.codes == ("A",)


def test_a_share_of_the_training_documents():
  texts = [documents.Document("", f"text {i}", False) for i in range(300)]
  assert all(map(GOOD.trains_on, texts))
  some = [t for t in texts if dataclasses.replace(
      GOOD, train_share=0.5
  ).trains_on(t)]
  assert 110 < len(some) < 190


@pytest.mark.parametrize("fields, says", [
    (dict(max_unknown=-1), "data.max_unknown"),
    (dict(share=(0.5, 0.5)), "data.share="),
    (dict(train_share=0.0), "data.train_share=0.0"),
    (dict(attribute_length=-1), "data.attribute_length"),
    (dict(sources=()), "data.sources is empty"),
    (dict(sources=(source(weight=0), source(weight=0))), "weights are 0"),
    (dict(sequence_length=2), "leaves no room for text after the code 'B c'"),
    (dict(sources=(source(attribute="{tone}"),)), "has an attribute"),
    (dict(sources=(source(kind="tfrecords"),), train_share=0.5),
     "holds sequences"),
    (dict(validation_fraction=0.9), "below 1"),
])
def test_bad_settings_are_refused(fields, says):
  with pytest.raises(errors.UserError, match=says):
    dataclasses.replace(GOOD, **fields)
