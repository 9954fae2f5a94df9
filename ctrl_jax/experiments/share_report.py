"""What less training text costs: table and figure over its share.

A method on a part of the training documents is called METHOD@PERCENT.
"""

import pathlib
from collections.abc import Mapping, Sequence

from ctrl_jax.evaluation import output
from ctrl_jax.experiments import cells, lines, panels
from ctrl_jax.experiments.lines import Line

Found = Mapping[str, Sequence[Line]]


def is_part(name: str) -> bool:
  """Whether a method trains on a part of the documents."""
  return "@" in name


def by_share(found: Found) -> dict[str, dict[float, list[Line]]]:
  """Returns method -> share of the documents -> lines at the last step.

  Args:
    found: from `lines.collect`; methods of a single share are left out.
  """
  series = {}
  for name, of_method in found.items():
    last = lines.last(of_method)
    if "train_share" in last[0]:
      of_series = series.setdefault(name.partition("@")[0], {})
      of_series[last[0]["train_share"]] = last
  return {name: x for name, x in series.items() if len(x) > 1}


def table(found: Found) -> str:
  """Returns a Markdown table: each method, the largest share first.

  The base as it is stands on top, where it was measured.
  """
  rows = []
  if "base" in found:
    rows.append(["base", cells.NONE, cells.NONE, *_cells(found["base"])])
  rows += [
      [
          name, f"{100 * share:g}", f"{last[0]['train_documents']:,}",
          *_cells(last),
      ]
      for name, of_series in by_share(found).items()
      for share, last in sorted(of_series.items(), reverse=True)
  ]
  return cells.table(
      [
          "method", "training texts %", "training texts", "accuracy %", "SLOR",
          "test perplexity", "base perplexity",
      ],
      rows,
  )


def _cells(last: Sequence[Line]) -> list[str]:
  return [
      cells.interval(last, ("accuracy",), 1, 100),
      cells.interval(last, ("slor",), 2),
      cells.mean(last, ("test_perplexity",), 1),
      cells.mean(last, ("base_perplexity",), 1),
  ]


def write(folder, found: Found) -> None:
  """Writes shares.md and shares.png, if a method has several shares."""
  series = by_share(found)
  if not series:
    return
  folder = pathlib.Path(folder)
  text = table(found)
  output.write_bytes(folder / "shares.md", text.encode("utf-8"))
  percent = {
      name: {100 * share: last for share, last in of_series.items()}
      for name, of_series in series.items()
  }
  if "base" in found:
    percent["base"] = {None: found["base"]}
  panels.draw(
      folder / "shares.png", percent, "training texts, %", log=True
  )
