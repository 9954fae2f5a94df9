"""What is asked for, and how a judge names it, on toy texts."""

import collections
import gzip
import json

import pytest

from ctrl_jax import errors
from ctrl_jax.experiments import topics

WORDS = dict(cats="purr meow whisker", dogs="bark woof leash", owls="hoot wing")
_COUNT = 7


def write(folder, **splits):
  for split, rows in splits.items():
    with gzip.open(folder / f"{split}.jsonl.gz", "wt") as f:
      f.writelines(json.dumps(row) + "\n" for row in rows)


def texts(count, start=0):
  return [
      dict(prompt=topic, text=f"we have seen number {i} {words} {words}.")
      for topic, words in WORDS.items() for i in range(start, start + count)
  ]


@pytest.fixture
def folder(tmp_path):
  write(tmp_path, test=texts(_COUNT), validation=texts(9, start=50))
  return tmp_path


def test_each_text_is_asked_for_each_topic_once(folder):
  found = topics.prompts(folder)
  assert len(found) == 3 * 3 * _COUNT and len(set(found)) == len(found)
  first = found[: 3 * _COUNT]
  assert collections.Counter(p.topic for p in first) == dict.fromkeys(
      WORDS, _COUNT
  )
  # Whatever a text's own topic is.
  assert 0 < sum(p.topic == p.own for p in first) < 2 * _COUNT
  assert {p.own for p in first} == set(WORDS)
  assert {p.prefix for p in found} == {"we have seen number"}
  assert all(p.text.split()[1] in WORDS[p.own] for p in found)
  assert first[0].keyword == ""
  assert topics.prompts(folder, 5) == found[:5]


def test_keywords_in_turn(folder):
  found = topics.prompts(folder, 5, ["so", "yet"])
  assert [p.keyword for p in found] == ["so", "yet", "so", "yet", "so"]


def test_a_text_that_ends_with_its_prefix_is_left_out(folder):
  rows = [*texts(1), dict(prompt="cats", text="only four words here")]
  write(folder, test=rows)
  assert len(topics.prompts(folder)) == 9


def test_a_judge_of_other_texts(folder):
  judge = topics.Judge(folder)
  asked = [p for p in topics.prompts(folder) if p.topic != p.own]
  assert judge.accuracy([p.text for p in asked], asked)["value"] == 0
  found = judge.accuracy([f" 3 {WORDS[p.topic]}" for p in asked], asked)
  assert found["value"] == 1 and found["samples"] == len(asked)
  assert set(found["by_topic"]) == set(WORDS)
  assert judge.hits([" 1 hoot", " 2 hoot"], [
      p._replace(topic=topic) for p, topic in zip(asked, ("owls", "cats"))
  ]) == [True, False]


def test_the_judge_on_real_text(folder):
  class Tokenizer:
    encode = staticmethod(str.split)
    decode = staticmethod(" ".join)

  judge = topics.Judge(folder)
  found = judge.on_real_text(folder, Tokenizer, 3)
  assert found["value"] == 1 and found["samples"] == 3 * _COUNT
  # The number alone tells nothing.
  assert judge.on_real_text(folder, Tokenizer, 1)["value"] < 0.5


def test_bad_input(folder):
  with pytest.raises(errors.UserError, match="names no file|No file"):
    topics.prompts(folder / "gone")
  write(folder, test=[], validation=[dict(prompt="cats", text="a b")])
  with pytest.raises(errors.UserError, match="holds no text"):
    topics.prompts(folder)
  with pytest.raises(errors.UserError, match="at least two"):
    topics.Judge(folder)
  write(folder, test=[dict(prompt="cats", text="too short")])
  with pytest.raises(errors.UserError, match="longer than 4 words"):
    topics.prompts(folder)
  write(folder, test=[dict(topic="cats", text="too short")])
  with pytest.raises(errors.UserError, match="no field 'prompt'"):
    topics.prompts(folder)
