"""Table of keywords and topics with one model, from its lines."""

import pathlib

from ctrl_jax.evaluation import output
from ctrl_jax.experiments import cells, lines

_HEAD = (
    "method", "keyword alone %", "SLOR", "topic alone %", "SLOR",
    "of both: keyword %", "topic %", "both %", "SLOR", "base perplexity",
)
# Where each column's number lies in a line, and what it is multiplied by.
_COLUMNS = (
    (("keyword", "accuracy"), 100), (("keyword", "slor"), 1),
    (("topic", "accuracy"), 100), (("topic", "slor"), 1),
    (("both", "accuracy", "keyword"), 100),
    (("both", "accuracy", "topic"), 100), (("both", "accuracy"), 100),
    (("both", "slor"), 1),
)


def write(folder) -> str:
  """Writes table.md: each method at the end of its budget; returns it."""
  rows = []
  for name, of_method in lines.collect(folder).items():
    last = lines.last(of_method)
    rows.append([
        name,
        *(
            cells.interval(last, path, 1 if scale == 100 else 2, scale)
            for path, scale in _COLUMNS
        ),
        cells.mean(last, ("base_perplexity",), 1),
    ])
  text = cells.table(_HEAD, rows)
  output.write_bytes(pathlib.Path(folder) / "table.md", text.encode("utf-8"))
  return text
