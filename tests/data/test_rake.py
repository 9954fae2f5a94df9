import pytest

from ctrl_jax.data import rake

# The example of Rose et al. 2010, figures 1.1 to 1.4.
_ABSTRACT = (
    "Compatibility of systems of linear constraints over the set of natural"
    " numbers. Criteria of compatibility of a system of linear Diophantine"
    " equations, strict inequations, and nonstrict inequations are considered."
    " Upper bounds for components of a minimal set of solutions and algorithms"
    " of construction of minimal generating sets of solutions for all types of"
    " systems are given. These criteria and the corresponding algorithms for"
    " constructing a minimal supporting set of solutions can be used in solving"
    " all the considered types of systems and systems of mixed types."
)
_STOPS = (
    "of over the a and are for all these can be in considered types given used"
    " solving construction mixed"
).split()


def test_the_papers_example():
  found = rake.scores(_ABSTRACT, _STOPS)
  best = sorted(found, key=lambda phrase: -found[phrase])[:9]
  assert {phrase: round(found[phrase], 1) for phrase in best} == {
      "minimal generating sets": 8.7,
      "linear diophantine equations": 8.5,
      "minimal supporting set": 7.7,
      "minimal set": 4.7,
      "linear constraints": 4.5,
      "natural numbers": 4.0,
      "strict inequations": 4.0,
      "nonstrict inequations": 4.0,
      "upper bounds": 4.0,
  }
  assert list(found)[:3] == ["compatibility", "systems", "linear constraints"]
  assert found["compatibility"] == 1 and found["set"] == 2


def test_phrases_end_at_lines_stops_numbers_and_punctuation():
  found = rake.scores("Old Tom's well-worn\nhat, 7 the red (dog) one_two", ())
  assert list(found) == [
      "old tom's well-worn", "hat", "the red", "dog", "one two"
  ]
  assert "a b c d e" not in rake.scores("a b c d e", (), max_words=4)


@pytest.mark.parametrize(
    "text, phrases",
    [
        # "In the realm, Hindi": vowel signs, a virama, a nukta.
        ("\u0915\u094d\u0937\u0947\u0924\u094d\u0930,"
         " \u0939\u093f\u0928\u094d\u0926\u0940",
         ["\u0915\u094d\u0937\u0947\u0924\u094d\u0930",
          "\u0939\u093f\u0928\u094d\u0926\u0940"]),
        ("Cafe\u0301 noir. Cafe\u0301s", ["cafe\u0301 noir", "cafe\u0301s"]),
        ("\u0130stanbul", ["i\u0307stanbul"]),
        ("\u0645\u06cc\u200c\u0631\u0648\u0645",
         ["\u0645\u06cc\u200c\u0631\u0648\u0645"]),
        # A mark behind no letter, and one outside of Unicode's first plane.
        ("red \u0301 dog", ["red", "dog"]),
        ("\U00011103\U0001112c", ["\U00011103\U0001112c"]),
    ],
)
def test_marks_belong_to_words(text, phrases):
  assert list(rake.scores(text, ())) == phrases


@pytest.mark.parametrize("text", ["", " \n", "the", "\u00e9\u4e2d"])
def test_short_texts(text):
  assert len(rake.scores(text)) == (text == "\u00e9\u4e2d")


def test_an_outline_of_each_paragraph():
  first = "Green apples and ripe red pears and figs."
  long = "; ".join(f"word{i} thing{i}" for i in range(60))
  found = rake.outline(f"{first}\n\n{long}\n{first}")
  assert found[:2] == ["green apples", "ripe red pears"]
  # Of equal scores the first ones; five a paragraph at most; none twice.
  assert found[2:] == [f"word{i} thing{i}" for i in range(5)]
