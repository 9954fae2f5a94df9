"""Tables and curves of the keyword task, from its lines."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from ctrl_jax.evaluation import output
from ctrl_jax.experiments import cells, lines, panels, share_report
from ctrl_jax.experiments.lines import Line


def table(found: Mapping[str, Sequence[Line]]) -> str:
  """Returns a Markdown table: each method at the end of its budget.

  Numbers are means over seeds; see `cells.interval`.
  """
  rows = []
  for name, of_method in found.items():
    last = lines.last(of_method)
    rows.append([
        name,
        cells.interval(last, ("accuracy",), 1, 100),
        cells.interval(last, ("slor",), 2),
        cells.interval(last, ("slor_continuation",), 2),
        cells.mean(last, ("accuracy", "samples"), 0),
        cells.mean(last, ("test_perplexity",), 1),
        cells.mean(last, ("diversity", "distinct_2"), 2),
        cells.mean(last, ("base_perplexity",), 1),
        cells.mean(last, ("train_tokens_per_second",), 0),
        cells.mean(last, ("tokens_per_second",), 0),
        cells.mean(last, ("train_bytes",), 0, 1e-6),
        cells.mean(last, ("sample_bytes",), 0, 1e-6),
    ])
  return cells.table(
      [
          "method", "accuracy %", "SLOR", "of continuations", "samples",
          "test perplexity", "distinct-2", "base perplexity",
          "tokens/s training", "sampling", "MB training", "sampling",
      ],
      rows,
  )


def targets(
    found: Mapping[str, Sequence[Line]],
    name: str = "auxiliary",
    baseline: str = "scratch",
) -> str:
  """Returns how early and how well a method gets there, beside the others.

  At a tenth of the budget its SLOR beside the baseline's at the end, and its
  accuracy beside its own at the end; at the end its accuracy beside that of the
  best trained method. "" without lines for that.

  Args:
    found: from `lines.collect`.
    name: of the method.
    baseline: what the paper compares it with.
  """
  if name not in found or baseline not in found:
    return ""
  end = lines.last(found[name])
  early = [x for x in found[name] if 10 * x["step"] == end[0]["step"]]
  if not early:
    return ""
  mean = lambda of, field: np.mean([x[field]["value"] for x in of])
  last = {k: lines.last(v) for k, v in found.items()}
  trained = {
      k: mean(v, "accuracy") for k, v in last.items()
      if v[0]["step"] and not share_report.is_part(k)
  }
  best = max(trained, key=trained.get)
  own = trained[name]
  return (
      f"At a tenth of the budget {name} has a SLOR of"
      f" {mean(early, 'slor'):.2f}, {baseline} at the end"
      f" {mean(last[baseline], 'slor'):.2f}; its accuracy is then"
      f" {100 * mean(early, 'accuracy') / max(own, 1e-9):.0f} % of its own at"
      f" the end. At the end its accuracy is {100 * own:.1f} %, that of the"
      f" best trained method, {best}, {100 * trained[best]:.1f} %.\n"
  )


def curves(
    file, found: Mapping[str, Sequence[Line]], x: str = "step"
) -> None:
  """Draws SLOR and accuracy against training (the paper's Figure 3).

  Args:
    file: PNG to write.
    found: from `lines.collect`; methods without training are horizontal lines.
    x: "step" or "flops".
  """
  series = {}
  for name, of_method in found.items():
    if x not in of_method[0] or of_method[-1]["step"] == 0:
      series[name] = {None: of_method[-1:]}
      continue
    series[name] = {}
    for line in of_method:
      series[name].setdefault(line[x], []).append(line)
  label = "training steps" if x == "step" else "training FLOPs"
  panels.draw(file, series, label)


def write(folder) -> str:
  """Writes table.md, curves and curves over FLOPs; returns the table.

  And what `share_report` does.
  """
  folder = pathlib.Path(folder)
  found = lines.collect(folder)
  whole = {k: v for k, v in found.items() if not share_report.is_part(k)}
  text = table(whole)
  if reached := targets(found):
    text += f"\n{reached}"
  output.write_bytes(folder / "table.md", text.encode("utf-8"))
  curves(folder / "curves.png", whole)
  curves(folder / "curves_flops.png", whole, "flops")
  share_report.write(folder, found)
  return text
