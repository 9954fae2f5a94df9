"""Cutting text into sentences."""

import pytest

from ctrl_jax.data import sentences


@pytest.mark.parametrize(
    "text, expected",
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("One line\nof two. Next  one.", ["One line of two.", "Next one."]),
        # A blank line ends what is no sentence.
        ("A heading\n\nThe text.", ["The text."]),
        ("No end mark", []),
        ("small letters.", []),
        ("", []),
        ("Dr. A. B. Fox met Mr. Owl. He left.",
         ["Dr. A. B. Fox met Mr. Owl.", "He left."]),
        ("It was I. You knew.", ["It was I.", "You knew."]),
        ("Eggs, e.g. Big ones. Milk etc. Then home.",
         ["Eggs, e.g. Big ones.", "Milk etc.", "Then home."]),
        # Speech goes on in a small letter behind the quote.
        ("\u201cWhere?\u201d said he. \u201cHere.\u201d She came.",
         ["\u201cWhere?\u201d said he.", "\u201cHere.\u201d", "She came."]),
        ("It is 3.5 m. 12 came.", ["It is 3.5 m.", "12 came."]),
        ("Wait... What?! (Yes.) No.", ["Wait...", "What?!", "(Yes.)", "No."]),
    ],
)
def test_split(text, expected):
  assert list(sentences.split(text)) == expected


def test_sentences_are_of_the_text():
  text = "A b. " * 3 + "\n" + "C\td e! " * 2
  found = list(sentences.split(text))
  assert len(found) == 5
  assert " ".join(found) == " ".join(text.split())


def test_long_text_takes_time_in_proportion():
  """Quadratic time would be minutes."""
  assert sum(1 for _ in sentences.split("So it is. " * 200_000)) == 200_000
