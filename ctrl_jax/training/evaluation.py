"""Perplexity of a split, overall and a control code, during training."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np


def make_eval_step(task: Any) -> Callable:
  """Returns a jitted (params, batch) -> the loss's rows, without dropout.

  They are `nll` [B] and `weight` [B], and whatever else the task says of a row.
  """
  return jax.jit(lambda params, batch: task.loss(params, batch, None)[1])


def perplexities(
    eval_step: Callable,
    params: Any,
    batches: Iterable[dict[str, np.ndarray]],
    put: Callable,
    codes: Sequence[str],
) -> dict[str, Any]:
  """Evaluates `batches`.

  Args:
    eval_step: from `make_eval_step`.
    params: the parameters.
    batches: with `tokens`, `weights` and `source` (index into `codes`).
    put: lays a batch out over the devices.
    codes: the control code of each source.

  Returns:
    `perplexity` over all target tokens, `loss` its logarithm,
    `perplexity_by_code`, and the mean over rows of what else these hold.
  """
  pending = []
  for batch in batches:  # No wait for a result before the last is on its way.
    inputs = {k: v for k, v in batch.items() if k != "source"}
    rows = eval_step(params, put(inputs))
    pending.append((batch["source"], rows))
  nll, weight, more = {}, {}, {}
  for source, rows in pending:
    rows = jax.device_get(rows)
    for s, n, w in zip(source, rows["nll"], rows["weight"]):
      code = codes[s]
      nll[code] = nll.get(code, 0.0) + float(n)
      weight[code] = weight.get(code, 0.0) + float(w)
    real = rows["weight"] > 0
    for name in rows.keys() - {"nll", "weight"}:
      more.setdefault(name, []).extend(rows[name][real].tolist())
  by_code = {c: _perplexity(nll[c], weight[c]) for c in nll if weight[c] > 0}
  total, tokens = sum(nll.values()), sum(weight.values())
  return {
      "loss": total / tokens if tokens else float("nan"),
      "perplexity": _perplexity(total, tokens) if tokens else float("nan"),
      "perplexity_by_code": by_code,
      **{name: sum(x) / len(x) for name, x in sorted(more.items()) if x},
  }


def _perplexity(nll: float, tokens: float) -> float:
  """Exp of the mean; infinite, not an exception, for a model gone wild."""
  return math.exp(min(nll / tokens, 700.0))
