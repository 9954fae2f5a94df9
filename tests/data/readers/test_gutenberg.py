import pytest

from ctrl_jax import errors
from ctrl_jax.data.readers import gutenberg

BOOK = ["CHAPTER I\n", "\n", "It was night.\n"]


@pytest.mark.parametrize(
    "start, end",
    [
        (
            "*** START OF THE PROJECT GUTENBERG EBOOK MOBY ***",
            "*** END OF THE PROJECT GUTENBERG EBOOK MOBY ***",
        ),
        (
            "***START OF THIS PROJECT GUTENBERG EBOOK MOBY***",
            "End of the Project Gutenberg EBook of Moby, by Someone",
        ),
        (
            "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*",
            "End of Project Gutenberg's Etext of Moby",
        ),
    ],
)
def test_cuts_the_licence_off(tmp_path, start, end):
  file = tmp_path / "2701-0.txt"
  file.write_text(
      "The Project Gutenberg EBook of Moby\n\nTitle: Moby\n"
      + start + "\n" + "".join(BOOK) + end + "\nUpdated editions will\n",
      encoding="utf-8-sig",
  )
  assert list(gutenberg.lines(str(file))) == BOOK


def test_a_file_without_the_mark_is_refused(tmp_path):
  (tmp_path / "a.txt").write_text("CHAPTER I\n")
  with pytest.raises(errors.UserError, match="kind 'text'"):
    list(gutenberg.lines(str(tmp_path / "a.txt")))
