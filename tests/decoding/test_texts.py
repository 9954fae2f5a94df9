"""The text of a result while it grows: half characters, stops, joints."""

import types

import pytest
from decoding_fakes import Characters

from ctrl_jax.decoding import texts
from ctrl_jax.decoding.generator import Row


class _Bytes(Characters):

  def decode(self, ids):
    return bytes(i for i in ids if i != 128).decode("utf-8", "replace")


def test_half_characters_and_half_stop_strings_are_not_shown():
  shown = []
  row = Row([128], 1, (0, 0))
  text = texts.GrowingText(row, _Bytes(), ("<end>",), shown.append)
  for byte in "aé<en<end>x".encode():
    row.ids.append(byte)
    text.update()
    if row.finished:
      break
  assert shown == ["a", "é", "<en"]
  assert (text.text, row.finished) == ("aé<en", "stop")
  assert bytes(row.ids).decode() == "aé<en<end>"


def test_what_was_held_back_is_shown_at_the_end():
  shown = []
  row = Row([128], 1, (0, 0))
  text = texts.GrowingText(row, _Bytes(), ("<end>",), shown.append)
  row.ids += b"a<en"
  text.update()
  assert shown == ["a"]
  row.finished = "length"
  text.update()
  assert shown == ["a", "<en"] and text.text == "a<en"


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_the_first_stop_string_ends_it_however_many_tokens_come(size):
  row = Row([128], 1, (0, 0))
  text = texts.GrowingText(row, _Bytes(), ("three", "two", "wo"))
  coming = b"one two three"
  while coming and not row.finished:
    row.ids += coming[:size]
    coming = coming[size:]
    text.update()
  assert (text.text, row.finished) == ("one ", "stop")
  assert bytes(row.ids) == b"one two"


def test_the_space_at_the_joint_is_kept():

  def decode(ids):  # Words; as SentencePiece, without the first space.
    return " ".join(f"w{i}" for i in ids)

  row = Row([1, 2], 0, (0, 0))
  text = texts.GrowingText(row, types.SimpleNamespace(decode=decode))
  row.ids += [3, 4]
  text.update()
  assert text.text == " w3 w4"
