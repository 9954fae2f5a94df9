"""Tables, samples and a figure of the CVAE's experiment, from its lines."""

import pathlib
from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np

from ctrl_jax.evaluation import latent_summary, output, plots
from ctrl_jax.experiments import cells, lines
from ctrl_jax.experiments.lines import Line

Found = Mapping[str, Sequence[Line]]
# The method that others' perplexity is compared with.
_BASELINE = "finetune"
_ROUGE = ("precision", "recall")


def stories(found: Found) -> str:
  """Returns the paper's Table 3, and diversity and prompt rank beside it.

  Args:
    found: method -> its lines at the end of the budget, one a seed.
  """
  head = [
      "method", "perplexity a token", f"times {_BASELINE}'s", "a word", "bound",
      *(f"ROUGE-{n} P, R, F1 %" for n in ("1", "2", "L")), "distinct-2",
      "self-BLEU-4", "repetition-4 %", "prompt rank 1 %", "minutes of training",
  ]
  rows = []
  for name, last in found.items():
    if "rouge" not in last[0]:
      continue
    percent = lambda kind, field, last=last: cells.mean(
        last, ("rouge", kind, field, "value"), 1, 100
    )
    rows.append([
        name, cells.interval(last, ("perplexity",), 2),
        _ratio(last, found.get(_BASELINE)),
        cells.interval(last, ("word_perplexity",), 1), last[0]["bound"],
        *(
            ", ".join([
                *(percent(f"rouge{n}", field) for field in _ROUGE),
                cells.interval(last, ("rouge", f"rouge{n}", "f1"), 1, 100),
            ])
            for n in ("1", "2", "L")
        ),
        cells.mean(last, ("diversity", "distinct_2"), 3),
        cells.mean(last, ("diversity", "self_bleu_4"), 3),
        cells.interval(last, ("diversity", "repetition_4"), 1, 100),
        cells.interval(last, ("prompt_rank", "accuracy"), 1, 100),
        _minutes(last),
    ])
  return cells.table(head, rows)


def _ratio(last, baseline) -> str:
  """Of the perplexities, means over seeds first; the texts are the same."""
  if not baseline or last is baseline:
    return cells.NONE
  nll, other = (
      np.mean([line["text_nll"] for line in of], axis=0)
      for of in (last, baseline)
  )
  if last[0]["text_tokens"] != baseline[0]["text_tokens"]:
    return cells.NONE  # Measured on other texts.
  ratio = latent_summary.perplexity_ratio(nll, other, last[0]["text_tokens"])
  return f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def _minutes(last) -> str:
  times = [
      line["tokens"] / line["train_tokens_per_second"] / 60 for line in last
      if line.get("train_tokens_per_second")
  ]
  return f"{np.mean(times):.0f}" if times else cells.NONE


def latents(found: Found) -> str:
  """Returns what the latents hold, of the methods that have one."""
  head = [
      "method", "KL, nats a sequence", "mutual information (log N)",
      "of prompts alone", "active units", "reconstruction",
      "another's z costs", "zeros cost", "a prior sample costs",
      "perplexity of the ELBO", "of posterior samples", "of prior samples",
      "of one",
  ]
  rows = []
  for name, last in found.items():
    if "information" not in last[0]:
      continue
    at = lambda *path, digits=1, last=last: cells.interval(last, path, digits)
    information = last[0]["information"]
    rows.append([
        name, at("information", "kl"),
        at("information", "mutual_information", digits=2)
        + f" (log {information['sequences']} ="
        f" {information['mutual_information_bound']:.2f})",
        at("information", "prior_mutual_information", digits=2),
        at("information", "active_units", digits=0)
        + f" of {information['latent_size']}",
        at("bounds", "reconstruction"), at("bounds", "ablation", "another"),
        at("bounds", "ablation", "zeros"),
        at("bounds", "ablation", "prior_sample"),
        at("bounds", "perplexity", "elbo"),
        at("bounds", "perplexity", "importance_weighted"),
        at("bounds", "perplexity", "prior_samples"),
        at("bounds", "perplexity", "one_prior_sample"),
    ])
  return cells.table(head, rows)


def control(found: Found) -> str:
  """Returns the control experiment: what z2 changes in each third."""
  head = ["method", "z2 of", "first third", "second", "last"]
  rows = []
  for name, last in found.items():
    for source in last[0].get("control", {}):
      parts = [
          [dict(effect=line["control"][source]["effect"][i]) for line in last]
          for i in range(3)
      ]
      rows.append([
          name, source,
          *(cells.interval(part, ("effect",), 3) for part in parts),
      ])
  return cells.table(head, rows)


def labels(found: Found) -> str:
  """Returns how often labels are named right, in percent."""
  head = ["vectors", "10 nearest", "linear probe", "most frequent label"]
  rows = []
  for name, last in found.items():
    for vectors in last[0].get("labels", {}):
      if vectors == "tf_idf":
        rows.append(["words, TF-IDF", cells.NONE, cells.interval(
            last, ("labels", "tf_idf"), 1, 100
        ), cells.NONE])
        continue
      rows.append([
          name if vectors == "latent" else vectors.replace("_", " "),
          *(
              cells.interval(last, ("labels", vectors, kind), 1, 100)
              for kind in ("knn", "linear", "most_frequent")
          ),
      ])
  return cells.table(head, rows)


def draw_control(file, found: Found, source: str = "posterior") -> None:
  """Draws how like samples are to both stories, by thirds.

  Args:
    file: PNG to write.
    found: see `stories`; methods without control experiment are left out.
    source: of z2.
  """
  some = {k: v[0]["control"] for k, v in found.items() if "control" in v[0]}
  if not some:
    return
  figure = matplotlib.figure.Figure(
      figsize=(3.4 * len(some), 3.4), dpi=120
  )
  axes = figure.subplots(1, len(some), sharey=True, squeeze=False)[0]
  for axis, (name, of) in zip(axes, some.items()):
    for i, (to, text) in enumerate((("to_first", "x1"), ("to_second", "x2"))):
      for samples, style in (("controlled", "-"), ("own", ":")):
        points = of[source][samples][to]
        axis.plot(
            range(1, len(points) + 1), [p["value"] for p in points], style,
            color=plots.COLOURS[i], marker="o", ms=3,
            label=f"to {text}'s story, {'z2' if style == '-' else 'z1'}",
        )
    axis.set_title(name, fontsize=9)
    axis.set_xlabel("third of the sample")
    axis.set_xticks(range(1, len(points) + 1))
    axis.grid(alpha=0.3)
  axes[0].set_ylabel("cosine of TF-IDF")
  axes[0].legend(fontsize=7)
  figure.tight_layout()
  plots.save(figure, file)


def write(folder) -> str:
  """Writes tables.md, samples.json and control.png; returns the tables.

  Args:
    folder: of the lines.
  """
  folder = pathlib.Path(folder)
  found = {
      name: lines.last(of) for name, of in lines.collect(folder).items()
  }
  parts = [
      ("Stories", stories), ("Latents", latents), ("Control: how much more"
      " like x2's story and less like x1's p(y | x1, z2) is than p(y | x1,"
      " z1), cosine", control), ("Labels, accuracy in percent", labels),
  ]
  text = (
      "Means over seeds, [95 % interval over texts], (range over seeds). Ratios"
      " of perplexities are of pairs. A text's end counts as a token, not as a"
      " word; true stories count for ROUGE with as many tokens as a sample has"
      " at most. Mutual information of prompts alone is that of the prior.\n"
  ) + "".join(f"\n## {title}\n\n{make(found)}" for title, make in parts)
  output.write_bytes(folder / "tables.md", text.encode("utf-8"))
  output.write_json(folder / "samples.json", {
      name: dict(
          examples=last[0].get("examples", []),
          control={
              source: of["examples"]
              for source, of in last[0].get("control", {}).items()
          },
      )
      for name, last in found.items()
  })
  draw_control(folder / "control.png", found)
  return text
