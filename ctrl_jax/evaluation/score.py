"""Log-probabilities of many texts, batched, without [B, T, V] logits.

Shape letters are those of `models/transformer.py`.
"""

import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tqdm

from ctrl_jax import errors
from ctrl_jax.evaluation import windows
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig

# Positions a batch, padding included.
_BATCH_TOKENS = 8192
# Logits that exist at one time (float32: 8 MB, which a CPU's cache can hold).
_CHUNK_LOGITS = 2**21
_SHORTEST = 16


@dataclasses.dataclass(frozen=True)
class Score:
  """How likely a text is.

  Attributes:
    log_prob: sum of log p over the tokens that have a prediction, in nats.
    num_tokens: how many those are.
  """

  log_prob: float
  num_tokens: int

  @property
  def perplexity(self) -> float:
    """exp(-log_prob / num_tokens); 1 for a text without any token."""
    return perplexity(self.log_prob, self.num_tokens)


def perplexity(log_prob: float, num_tokens: int) -> float:
  """Returns exp(-log_prob / num_tokens), at most exp(700).

  That is the largest a float holds; JSON has no infinity.
  """
  return math.exp(min(-log_prob / max(num_tokens, 1), 700.0))


def score(
    config: TransformerConfig,
    params: Any,
    sequences: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    window: int | None = None,
    progress: str = "",
) -> list[Score]:
  """Scores each (prefix, tokens): log p(tokens | prefix).

  Args:
    config: the model's.
    params: its parameters.
    sequences: pairs of token ids; the prefix (a control code) is read and not
      scored. With an empty prefix the first token is not scored.
    window: positions a window (`windows.cut`), `config.max_length` when None.
    progress: what a progress bar on stderr is called; "" for none.

  Returns:
    One `Score` a pair, in order, independent of the other pairs but for
    rounding.

  Raises:
    errors.UserError: a prefix that fills the window, or parameters that give
      log-probabilities that are not numbers.

  Example:

  >>> score(config, params, [([7], [1, 2, 3])])  # doctest: +SKIP
  [Score(log_prob=-27.3, num_tokens=3)]
  """
  window = window or config.max_length
  longest = max((len(prefix) for prefix, _ in sequences), default=0)
  if longest >= window:
    raise errors.UserError(
        f"A control code of {longest} tokens leaves no room in the model's"
        f" window of {window}: use a shorter one."
    )
  rows = list(itertools.chain.from_iterable(
      windows.cut(i, prefix, tokens, window)
      for i, (prefix, tokens) in enumerate(sequences)
  ))
  # Computation is asynchronous: results are fetched when all is under way.
  pending = []
  with tqdm.tqdm(
      total=sum(len(w.ids) for w in rows), desc=progress, unit="token",
      unit_scale=True, disable=not progress,
      # On a terminal a few times a second, in a log file now and then.
      mininterval=0.2 if sys.stderr.isatty() else 10,
  ) as bar:
    for batch, length in _batches(rows, window):
      arrays = _arrays(batch, length)
      pending.append((batch, _log_probs(config, params, *arrays)))
      # One batch behind, so that the bar tells the truth.
      if progress and len(pending) > 1:
        pending[-2][1].block_until_ready()
        bar.update(sum(len(w.ids) for w in pending[-2][0]))
    log_probs = np.zeros(len(sequences), np.float64)
    counts = np.zeros(len(sequences), np.int64)
    for batch, values in pending:
      for w, value in zip(batch, np.asarray(values).astype(np.float64)):
        log_probs[w.row] += value
        counts[w.row] += w.num_scored
    bar.update(bar.total - bar.n)
  if not np.isfinite(log_probs).all():
    raise errors.UserError(
        "The model gives log-probabilities that are not finite numbers: its"
        " parameters are damaged, or training diverged. Use another checkpoint."
    )
  return [Score(float(p), int(n)) for p, n in zip(log_probs, counts)]


def bucket(length: int, longest: int) -> int:
  """Rounds up to a power of two or 1.5 times one, at most `longest`.

  So few lengths are compiled, and padding stays below a third.
  """
  size = _SHORTEST
  while size < length:
    # 16, 24, 32, 48, 64, ...
    size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
  return min(size, longest)


def _batches(
    rows: Sequence[windows.Window], window: int
) -> Iterator[tuple[Sequence[windows.Window], int]]:
  """Groups windows of a like length, the longest first."""

  def length(w):
    return bucket(len(w.ids) - 1, window)

  rows = sorted(rows, key=length, reverse=True)
  for size, group in itertools.groupby(rows, key=length):
    group = list(group)
    num_rows = max(1, _BATCH_TOKENS // size)
    for i in range(0, len(group), num_rows):
      yield group[i : i + num_rows], size


def _arrays(
    batch: Sequence[windows.Window], length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Pads a batch: ids [B, length + 1], and each row's `first` and end [B].

  B is a power of two, so that few shapes are compiled; rows that are padding
  score nothing.
  """
  num_rows = 1 << (len(batch) - 1).bit_length()
  ids = np.zeros((num_rows, length + 1), np.int32)
  first = np.zeros(num_rows, np.int32)
  end = np.zeros(num_rows, np.int32)
  for i, w in enumerate(batch):
    ids[i, : len(w.ids)] = w.ids
    first[i], end[i] = w.first, len(w.ids)
  return ids, first, end


@functools.partial(jax.jit, static_argnums=0)
def _log_probs(
    config: TransformerConfig,
    params: Any,
    ids: jax.Array,
    first: jax.Array,
    end: jax.Array,
) -> jax.Array:
  """Sums log p over the tokens `first` to `end` of each row: float32 [B]."""
  hidden_BTD = transformer.hidden_states(config, params, ids[:, :-1])
  labels_BT = ids[:, 1:]
  hidden = hidden_BTD.reshape(-1, config.d_model)
  labels = labels_BT.reshape(-1)

  def chunk(inputs):
    logits = transformer.head(config, params, inputs[0])
    chosen = jnp.take_along_axis(logits, inputs[1][:, None], axis=-1)[:, 0]
    return chosen - jax.nn.logsumexp(logits, axis=-1)

  num_tokens = labels.shape[0]
  size = min(num_tokens, max(8, _CHUNK_LOGITS // config.vocab_size))
  num_chunks = -(-num_tokens // size)
  extra = num_chunks * size - num_tokens
  hidden = jnp.pad(hidden, ((0, extra), (0, 0)))
  labels = jnp.pad(labels, (0, extra))
  log_probs = jax.lax.map(
      chunk,
      (hidden.reshape(num_chunks, size, -1), labels.reshape(num_chunks, size)),
  )
  log_probs_BT = log_probs.reshape(-1)[:num_tokens].reshape(labels_BT.shape)
  index = jnp.arange(1, ids.shape[1])[None]
  scored = (first[:, None] <= index) & (index < end[:, None])
  return jnp.where(scored, log_probs_BT, 0.0).sum(1)
