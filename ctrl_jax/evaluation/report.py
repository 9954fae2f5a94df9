"""One evaluation of a model on held-out documents, as numbers for JSON."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctrl_jax import errors
from ctrl_jax.evaluation import attribution, perplexity
from ctrl_jax.evaluation import baseline as baseline_lib
from ctrl_jax.evaluation.documents import Document


def codes_with_documents(
    codes: Sequence[str], documents: Sequence[Document]
) -> list[str]:
  """Returns those of `codes` that have documents, in order.

  Raises:
    errors.UserError: fewer than two have.
  """
  have = {d.code for d in documents}
  found = [c for c in codes if c in have]
  if len(found) < 2:
    raise errors.UserError(
        f"Only {len(found)} of {len(codes)} control codes have held-out"
        " documents that are long enough (pairs are none); comparing needs two."
        " Lower --min-tokens, choose another --split, or give --data=FOLDER, a"
        " data set with more codes. (metrics.jsonl of the workdir has the"
        " validation perplexity.)"
    )
  return found


def evaluate(
    model: Any,
    documents: Sequence[Document],
    codes: Sequence[str],
    baseline: baseline_lib.Baseline | None,
    *,
    progress: str = "",
) -> dict[str, Any]:
  """Measures perplexity and attribution.

  Every document is read under every code once; all numbers come from that.

  Args:
    model: a `LanguageModel`.
    documents: held-out ones; each code has one or more.
    codes: what to compare, two or more.
    baseline: a classifier to put beside the model; None for none.
    progress: what the progress bar is called.

  Returns:
    Numbers by name; see README, "Evaluation".
  """
  index = {code: i for i, code in enumerate(codes)}
  labels = np.array([index[d.code] for d in documents])
  num_tokens = np.array([len(d.ids) for d in documents])
  log_probs = perplexity.score_documents(
      model, documents, codes, progress=progress
  )
  perplexities = perplexity.matrix(log_probs, num_tokens, labels, len(codes))
  summary = perplexity.summary(perplexities)
  right = summary.pop("right_by_domain")
  wrong = summary.pop("wrong_by_domain")
  top1 = log_probs.argmax(-1)
  domains = {
      code: dict(
          documents=int((labels == i).sum()),
          tokens=int(num_tokens[labels == i].sum()),
          right_code=right[i],
          wrong_codes=wrong[i],
          lowest_under=codes[int(perplexities[:, i].argmin())],
          attributed_right=float((top1[labels == i] == i).mean()),
      )
      for i, code in enumerate(codes)
  }
  found = dict(
      perplexity=summary,
      domains=domains,
      matrix=dict(
          codes=list(codes),
          rows="read under this code",
          columns="written in this domain",
          perplexity=perplexities.tolist(),
      ),
      attribution=_attribution(model, log_probs, labels, codes),
  )
  if baseline is not None:
    p = baseline.probabilities([d.text for d in documents], codes)
    found["baseline"] = dict(
        description=baseline_lib.DESCRIPTION,
        train_documents=baseline.num_documents,
        **_top(p, labels),
    )
    found["attribution"]["of_baseline"] = (
        found["attribution"]["uniform_prior"]["top1"]
        / max(found["baseline"]["top1"], 1e-9)
    )
  return found


def _top(scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
  return dict(
      top1=attribution.top_k_accuracy(scores, labels, 1),
      top3=attribution.top_k_accuracy(scores, labels, 3),
  )


def _attribution(model, log_probs, labels, codes) -> dict[str, Any]:
  found = dict(
      documents=len(labels),
      chance=1 / len(codes),
      uniform_prior=_top(log_probs, labels),
  )
  if model.prior is not None and all(c in model.prior for c in codes):
    log_prior = attribution.log_prior(codes, model.prior)
    found["data_prior"] = _top(log_probs + log_prior, labels)
  return found


def table(found: dict[str, Any]) -> str:
  """Returns an evaluation as a table for the terminal."""
  width = max(6, *map(len, found["domains"]))
  lines = [
      f"{'domain':{width}}  docs   tokens  right code  wrong codes"
      "  lowest under  attributed"
  ]
  for code, d in found["domains"].items():
    own = "itself" if d["lowest_under"] == code else d["lowest_under"]
    lines.append(
        f"{code:{width}} {d['documents']:5} {d['tokens']:8}"
        f" {d['right_code']:11.2f} {d['wrong_codes']:12.2f}  {own:>12}"
        f" {d['attributed_right']:11.1%}"
    )
  p, a = found["perplexity"], found["attribution"]
  num_codes = len(found["domains"])
  lines += [
      "",
      f"Perplexity, mean over domains: {p['right_code']:.2f} with the right"
      f" code, {p['wrong_codes']:.2f} with wrong ones.",
      f"The own code gives the lowest perplexity in"
      f" {p['domains_lowest_under_own_code']} of {num_codes} domains.",
      "",
      f"Attribution of {a['documents']} documents    top-1   top-3",
  ]
  rows = [("  model, uniform prior", a["uniform_prior"])]
  if "data_prior" in a:
    rows.append(("  model, data prior", a["data_prior"]))
  if "baseline" in found:
    rows.append(("  TF-IDF + logistic regression", found["baseline"]))
  rows.append((
      "  chance", dict(top1=a["chance"], top3=min(1.0, 3 * a["chance"]))
  ))
  lines += [
      f"{name:33} {row['top1']:6.1%}  {row['top3']:6.1%}" for name, row in rows
  ]
  if "of_baseline" in a:
    lines.append(
        f"The model's top-1 is {a['of_baseline']:.2f} times the baseline's."
    )
  return "\n".join(lines)
