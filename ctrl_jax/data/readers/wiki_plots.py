"""WikiPlots: titles and plots of books, films and games from Wikipedia.

`plots` has a sentence a line and `<EOS>` behind each story, `titles` a title a
line. The Transformer CVAE's authors made `plots_paragraph` of it: a story a
line, `<newline><newline>` between paragraphs (by sentence vectors of BERT).

Source: Riedl 2017, github.com/markriedl/WikiPlots.
"""

import os
import re
from collections.abc import Iterator, Sequence

from ctrl_jax.data import files
from ctrl_jax.data.readers import companions

_END = "<EOS>"
# A word in a title says what it is a plot of: the paper's labels, in order.
_KINDS = (
    ("tv", r"tv|play|miniseries|telenovela"),
    ("film", r"film"),
    ("music", r"musical|music|album|opera"),
    ("manga", r"manga|comics?"),
    ("book", r"book|novel|story"),
    ("game", r"game"),
)


def read(path: Sequence[str]) -> Iterator[tuple[dict, str]]:
  """Yields pairs.

  Their fields:
    title: the title, without `name` in brackets behind it: `Emma (novel)`
      becomes `Emma`.
    full_title: with it.
    label: what the brackets name, "tv", "film", "music", "manga", "book" or
      "game"; "" where they name none of these, or where there are none.
    plot: the story; `plots` has no paragraphs, its sentences follow each other.

  Stories without text are passed over.

  Args:
    path: `plots` or `plots_paragraph`; `titles` lies beside it.

  Raises:
    errors.UserError: a file is missing, or there are not as many titles as
      stories.
  """
  for file in files.find(path):
    is_cut = "plots_paragraph" in os.path.basename(file)
    old = "plots_paragraph" if is_cut else "plots"
    titles = companions.beside(file, old, "titles")
    plots = _paragraphs(file) if is_cut else _sentences(file)
    for number, plot, full in companions.line_by_line(
        file, plots, titles, files.lines(titles)
    ):
      if plot:
        title, label = _label(full)
        yield (
            dict(title=title, full_title=full, label=label, plot=plot),
            f"{titles}:{number}",
        )


def _sentences(file: str) -> Iterator[str]:
  sentences = []
  for line in files.lines(file):
    if line.strip() == _END:
      yield " ".join(filter(None, sentences))
      sentences = []
    else:
      sentences.append(line.strip())
  if any(sentences):  # The last story's mark is missing.
    yield " ".join(filter(None, sentences))


def _paragraphs(file: str) -> Iterator[str]:
  for line in files.lines(file):
    parts = re.split(r"(?:\s*<newline>)+", line)
    yield "\n\n".join(part.strip() for part in parts if part.strip())


def _label(full: str) -> tuple[str, str]:
  match = re.search(r"\s*\(([^()]*)\)$", full)
  if not match or not full[: match.start()]:
    return full, ""
  for label, words in _KINDS:
    if re.search(rf"\b(?:{words})\b", match[1], re.IGNORECASE):
      return full[: match.start()], label
  return full[: match.start()], ""
