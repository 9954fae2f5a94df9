"""Books of Project Gutenberg, without the licence before and after them.

A book's file has lines such as

  *** START OF THE PROJECT GUTENBERG EBOOK MOBY DICK ***
  *** END OF THE PROJECT GUTENBERG EBOOK MOBY DICK ***

around the book; until 2003 the first was `*END*THE SMALL PRINT! ...*END*`.

Source: gutenberg.org, files of 1991 to 2024.
"""

import re
from collections.abc import Iterator

from ctrl_jax import errors
from ctrl_jax.data import files

_START = re.compile(
    r"(\*\*\* ?START OF (THE|THIS) PROJECT GUTENBERG"
    r"|\*END ?\*? ?THE SMALL PRINT)",
    re.I,
)
_END = re.compile(
    r"(\*\*\* ?END OF (THE|THIS) PROJECT GUTENBERG"
    r"|End of (The )?Project Gutenberg('s)? )",
    re.I,
)


def lines(file: str) -> Iterator[str]:
  """Yields the lines of the book in a file, with their ends.

  Raises:
    errors.UserError: nothing says where the book begins, or the file is
      damaged or not UTF-8.
  """
  all_lines = files.lines(file)
  for line in all_lines:
    if _START.match(line):
      break
  else:
    raise errors.UserError(
        f"{file}: no line `*** START OF THE PROJECT GUTENBERG ...`. If the"
        " licence is cut off already, read the file as kind 'text'."
    )
  for line in all_lines:
    if _END.match(line):
      return
    yield line
