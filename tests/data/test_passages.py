"""Texts in documents, by hand."""

from ctrl_jax.data import passages


def test_texts_are_found_however_spaced():
  found = passages.Passages([" sat on a  mat, and slept.", "a mat, and slept."])
  assert sorted(found.find("The cat sat on\na mat, and slept. It woke.")) == [
      "a mat, and slept.", "sat on a mat, and slept."
  ]
  assert not list(found.find("The cat sat on a mat, and woke."))


def test_texts_of_few_words_are_nowhere():
  found = passages.Passages(["too short here", "", "this is long enough"])
  assert list(found.find("too short here, but this is long enough")) == [
      "this is long enough"
  ]
  assert not list(passages.Passages(()).find("whatever there is to read"))


def test_a_text_as_it_is_named():
  assert passages.spaced(" one\n two\u00a0three ") == "one two three"
