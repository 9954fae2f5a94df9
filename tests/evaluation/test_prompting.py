import types

import pytest

from ctrl_jax import errors
from ctrl_jax.evaluation import prompting
from ctrl_jax.evaluation.prompting import FEW_SHOT, Templates

POOL = [
    dict(keyword=f"key{i}", prefix=f"prefix {i}", text=f" text key{i}.")
    for i in range(40)
]
QUERY = dict(keyword="soon", prefix="It is")


class Words:
  """White space and words are tokens."""

  begin_ids = ()

  def encode(self, text):
    return text.split()

  def code_ids(self, code):
    return code.split()


def few(k=3, room=100, pool=POOL, query=QUERY, **kw):
  return prompting.few_shot(
      query, pool, k, tokenizer=Words(), room=room, **kw
  )


def test_zero_shot():
  found = prompting.zero_shot(QUERY)
  assert found == ('A sentence with the word "soon": It is', 0)
  words = Templates("Write.\n", "{prefix} ({keyword})", "")
  assert prompting.zero_shot(QUERY, words).text == "Write.\nIt is (soon)"
  with pytest.raises(errors.UserError, match="no field 'prefix'"):
    prompting.zero_shot(dict(keyword="soon"))


def test_few_shot_ends_with_the_query():
  found = few()
  assert found.examples == 3
  first, *rest = found.text.split("\n\n")
  assert first == FEW_SHOT.instruction.strip()
  assert rest[-1] == "Word: soon\nSentence: It is"
  wanted = [
      f"Word: {r['keyword']}\nSentence: {r['prefix']}{r['text']}" for r in POOL
  ]
  assert len(set(rest[:-1])) == 3 and set(rest[:-1]) <= set(wanted)


def test_the_draw_depends_on_the_seed_and_the_querys_number():
  assert few() == few()
  assert few(seed=1) != few()
  assert few(number=1) != few()
  assert few(5).text.startswith(few(2).text.rsplit("Word: soon")[0])


def test_examples_fit_with_room_for_the_result():
  one = len(Words().encode(few(1).text)) - len(Words().encode(few(2).text))
  size = len(Words().encode(few(2).text))
  assert few(5, room=size).examples == 2
  assert few(5, room=size - 1).examples == 1
  assert few(5, room=size - one).examples == 3
  with pytest.raises(errors.UserError, match="No example of 40"):
    few(room=10)


def test_a_long_example_is_passed_over():
  pool = [dict(POOL[0], text=" word" * 1000)] * 5 + POOL[:3]
  found = few(3, pool=pool)
  assert found.examples == 3 and "word word" not in found.text


def test_the_querys_own_row_is_never_shown():
  own = dict(QUERY, text=" soon there.")
  assert "soon there" not in few(3, pool=[own] * 3 + POOL[:3]).text
  with pytest.raises(errors.UserError, match="No example"):
    few(3, pool=[own])


def test_bad_numbers():
  with pytest.raises(errors.UserError, match="k=0"):
    few(0)
  with pytest.raises(errors.UserError, match="No example of 0"):
    few(pool=[])


def test_room():
  model = types.SimpleNamespace(
      tokenizer=Words(), config=types.SimpleNamespace(max_length=64)
  )
  assert prompting.room_for(model, None, 30) == 34
  assert prompting.room_for(model, "Text more", 30) == 32
  with pytest.raises(errors.UserError, match="no room"):
    prompting.room_for(model, None, 64)
