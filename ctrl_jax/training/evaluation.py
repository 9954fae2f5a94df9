"""Perplexity of a split, overall and a control code, during training."""

import collections
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

# Batches on their way: the device never waits, and SIGTERM not long.
_AHEAD = 2


def make_eval_step(
    task: Any, out_sharding: jax.sharding.Sharding | None = None
) -> Callable:
  """Returns a jitted (params, batch) -> the loss's rows, without dropout.

  They are `nll` [B] and `weight` [B], and whatever else the task says of a row.

  Args:
    task: has `loss`.
    out_sharding: of the rows; with several processes, a copy on each device.
  """
  return jax.jit(
      lambda params, batch: task.loss(params, batch, None)[1],
      out_shardings=out_sharding,
  )


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
  nll, weight, more = {}, {}, {}
  for source, rows in _rows(eval_step, params, batches, put):
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


def _rows(eval_step, params, batches, put):
  """Yields (source, the loss's rows) a batch, some batches behind."""
  pending = collections.deque()
  for batch in batches:  # No wait for a result before the next is on its way.
    inputs = {k: v for k, v in batch.items() if k != "source"}
    pending.append((batch["source"], eval_step(params, put(inputs))))
    if len(pending) > _AHEAD:
      source, rows = pending.popleft()
      yield source, jax.device_get(rows)
  for source, rows in pending:
    yield source, jax.device_get(rows)


def _perplexity(nll: float, tokens: float) -> float:
  """Exp of the mean; infinite, not an exception, for a model gone wild."""
  return math.exp(min(nll / tokens, 700.0))
