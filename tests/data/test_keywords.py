"""Whole words, and triples that are what they say."""

import collections
import hashlib

import pytest

from ctrl_jax import errors
from ctrl_jax.data import keywords

SENTENCE = "My salary is really low compared to others, nevertheless I stay."


def digest(text):
  return hashlib.sha256(text.encode()).digest()


def make(sentence, words, **lengths):
  return keywords.from_sentence(
      sentence, keywords.Inventory(words),
      keywords.Lengths(**dict(min_prefix=1, min_sentence=1) | lengths),
      digest(sentence), "d",
  )


@pytest.mark.parametrize(
    "text, keyword, expected",
    [
        ("Nevertheless I stay.", "nevertheless", True),
        ("I stay NEVERTHELESS", "Nevertheless", True),
        ("neverthelessness", "nevertheless", False),
        ("know nowhere", "now", False),
        ("now", "now", True),
        ("(now)", "now", True),
        ("it, now, is", "now", True),
        # Parts of other words.
        ("a well-known fact", "well", False),
        ("get-together", "together", False),
        ("everyone else's", "else", False),
        ("can\u2019t", "can", False),
        # Quotes and dashes are none.
        ("'now' or \u2018well\u2019", "now", True),
        ("'now' or \u2018well\u2019", "well", True),
        ("then--suddenly--it", "suddenly", True),
        # Spaces, commas and signs.
        ("as a\nresult  we", "as a result", True),
        ("as aresult", "as a result", False),
        ("Well, I stay", "well,", True),
        ("Well I stay", "well,", False),
        ("It is C++.", "c++", True),
        ("ABC++", "c++", False),
        ("a.b", "a.b", True),
        ("axb", "a.b", False),
        ("Caf\u00c9 au lait", "caf\u00e9", True),
        ("", "now", False),
    ],
)
def test_holds_keyword(text, keyword, expected):
  assert keywords.holds_keyword(text, keyword) is expected


def test_what_stands_before_the_start_is_seen():
  assert keywords.holds_keyword("so it is", "so")
  assert not keywords.holds_keyword("so it is", "so", start=1)
  assert not keywords.holds_keyword("also", "so", start=2)
  assert not keywords.holds_keyword("well-so", "so", start=5)
  assert keywords.holds_keyword("so, so", "so", start=2)


def test_inventory_file(tmp_path):
  file = tmp_path / "markers.txt"
  file.write_text("however\n\nas_a_result\nwell,\nHowever\r\n")
  read = keywords.Inventory.read(str(file))
  assert read.keywords == ("however", "as a result", "well,")
  assert read.spelling("HOWEVER") == "however"
  assert read.spelling("AS A  result") == "as a result"
  assert read.spelling("well") is None
  bare = keywords.Inventory.read(str(file), drop_commas=True)
  assert bare.keywords == ("however", "as a result", "well")


@pytest.mark.parametrize(
    "content, message",
    [
        ("\n \n", "has no keyword"),
        ("a\n,\n", "',' holds no letter"),
        ("", "empty"),
    ],
)
def test_bad_inventory(tmp_path, content, message):
  file = tmp_path / "markers.txt"
  file.write_text(content)
  with pytest.raises(errors.UserError, match=message) as e:
    keywords.Inventory.read(str(file))
  assert "markers.txt" in str(e.value)


def test_find():
  inventory = keywords.Inventory(["in fact", "fact", "so", "well,", "C++"])
  assert inventory.find("So, in FACT, all is well in c++.") == [
      ("so", 0), ("in fact", 4), ("fact", 7), ("C++", 28),
  ]
  assert inventory.find("Nothing.") == []


def test_a_triple_is_its_sentence():
  """Over many sentences every allowed cut comes, and no other."""
  cuts = collections.Counter()
  for i in range(200):
    sentence = f"One two three four so five six, so {i}."
    triple, reason = make(sentence, ["so"], min_prefix=2, max_prefix=6)
    assert reason == ""
    assert triple.prefix + triple.text == sentence
    assert triple.text.startswith(" ") and triple.prefix[-1] != " "
    assert not keywords.holds_keyword(triple.prefix, "so")
    assert keywords.holds_keyword(triple.text, "so")
    cuts[len(triple.prefix.split())] += 1
  assert sorted(cuts) == [2, 3, 4] and min(cuts.values()) > 40


def test_one_of_several_keywords():
  found = collections.Counter(
      make(f"We went {i} home, so it ended then.", ["so", "then", "xyz"])[0]
      .keyword
      for i in range(100)
  )
  assert sorted(found) == ["so", "then"] and min(found.values()) > 30


def test_the_paper_s_example():
  triple, _ = make(SENTENCE, ["nevertheless"], min_prefix=5, max_prefix=5)
  assert triple == keywords.Triple(
      "nevertheless", "My salary is really low",
      " compared to others, nevertheless I stay.", "d",
  )


@pytest.mark.parametrize(
    "sentence, lengths, reason",
    [
        ("Nothing here.", {}, "no keyword"),
        ("So it is.", {}, "keyword within the shortest prefix"),
        ("It is so.", dict(min_prefix=3), "keyword within the shortest prefix"),
        # A quote belongs to the keyword's word: no prefix ends inside it.
        ('It "so', dict(min_prefix=2), "keyword within the shortest prefix"),
        ("It is so.", dict(min_sentence=4), "sentence too short or long"),
        ("It is so.", dict(max_sentence=2), "sentence too short or long"),
    ],
)
def test_what_gives_no_triple(sentence, lengths, reason):
  assert make(sentence, ["so"], **lengths) == (None, reason)


@pytest.mark.parametrize(
    "row, reason",
    [
        (dict(), ""),
        (dict(prefix="My salary "), ""),
        (dict(keyword="NEVERTHELESS"), ""),
        (dict(keyword="so"), "keyword not in the inventory"),
        (dict(prefix=" "), "empty prefix"),
        (dict(prefix="Her salary"), "prefix not at the start"),
        (dict(prefix="My sal"), "prefix ends within a word"),
        (dict(prefix=SENTENCE), "keyword in the prefix"),
        (dict(prefix=SENTENCE[:57]), "keyword in the prefix"),
        (dict(text="My salary is low."), "keyword not in the continuation"),
        # Half in the prefix, half behind it.
        (dict(keyword="salary is", prefix="My salary"),
         "keyword not in the continuation"),
    ],
)
def test_from_row(row, reason):
  row = dict(keyword="nevertheless", prefix="My salary", text=SENTENCE) | row
  inventory = keywords.Inventory(["Nevertheless", "salary is"])
  triple, found = keywords.from_row(row, inventory, "d")
  assert found == reason
  if not reason:
    assert triple == ("Nevertheless", "My salary", SENTENCE[9:], "d")
  else:
    assert triple is None


@pytest.mark.parametrize(
    "lengths",
    [dict(min_prefix=0), dict(min_prefix=9), dict(min_sentence=41),
     dict(min_prefix=8, max_sentence=8)],
)
def test_bad_lengths(lengths):
  with pytest.raises(errors.UserError, match="cannot be"):
    keywords.Lengths(**lengths)
