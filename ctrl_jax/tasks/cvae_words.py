"""Where the head over words (`models/word_heads.py`) begins.

Latent semantic analysis takes the directions along which texts differ most,
be it by what they are about or by what one sentence says. Here the directions
are those along which the two halves of a text agree: the eigenvectors, with the
largest eigenvalues, of the halves' covariance P^T Q + Q^T P. Measured on 9,766
abstracts of three topics, by 10 nearest neighbours on 500 others: 88.6 %,
against 85.8 to 88.0 % for the directions of whole texts.

Letters as in `models/cvae.py`.
"""

from collections.abc import Iterable
from typing import NamedTuple

import flax.linen as nn
import jax
import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from ctrl_jax.models import word_heads
from ctrl_jax.tasks import cvae as task_lib

# Texts that are read, at least (whole batches).
TEXTS = 8192
_ROWS = 256  # Whose vectors exist at one time.


class Texts(NamedTuple):
  """Training texts on the host; rows without a target are left out.

  Attributes:
    ids: int32 [N, T], what the encoder reads.
    length: int32 [N], of each row.
    targets: int64 [V], how often each token is one.
  """

  ids: np.ndarray
  length: np.ndarray
  targets: np.ndarray


def read(task: task_lib.CVAETask, batches: Iterable[task_lib.Batch]) -> Texts:
  """Returns the texts of batches that lie on all devices."""

  @jax.jit
  def whole(batch):
    # On every device, so that every process can read them.
    return jax.tree.map(
        lambda x: nn.with_logical_constraint(x, (None,) * x.ndim), batch
    )

  width, size = task.model.max_length, task.model.padded_vocab_size
  ids, lengths, targets = [], [], np.zeros(size, np.int64)
  for batch in batches:
    found = jax.device_get(
        whole({name: batch[name] for name in ("tokens", "weights")})
    )
    tokens, is_target = found["tokens"], found["weights"] > 0
    targets += np.bincount(tokens[is_target], minlength=size)
    # As `cvae.lengths`: up to the last target.
    end = is_target.shape[1] - np.argmax(is_target[:, ::-1], axis=1)
    has_any = is_target.any(1)
    ids.append(tokens[has_any, :width])
    lengths.append(np.minimum(end[has_any], width))
  return Texts(np.concatenate(ids), np.concatenate(lengths), targets)


def smoothed(count_V: np.ndarray, smoothing: float) -> np.ndarray:
  """Returns a / (a + p) of tokens' frequencies, float32 [V]; 1 for a=0."""
  if not smoothing:
    return np.ones(len(count_V), np.float32)
  frequency = count_V / max(count_V.sum(), 1)
  return (smoothing / (smoothing + frequency)).astype(np.float32)


def begin(
    texts: Texts, latent_size: int, smoothing: float, has_components: bool
) -> tuple[dict[str, np.ndarray], np.ndarray]:
  """Returns the head `words`, and the bias of the mean that goes with it.

  Args:
    texts: of `read`.
    latent_size: Z.
    smoothing: a, of the tokens' weights.
    has_components: whether the head begins as what halves agree on, each
      component with mean 0 and variance 1 over the texts; or as zeros.
  """
  size = len(texts.targets)
  places = np.arange(texts.ids.shape[1])[None]
  read_V = np.bincount(
      texts.ids[places < texts.length[:, None]], minlength=size
  )
  weight = smoothed(read_V, smoothing)
  if not has_components:
    kernel, bias = np.zeros((size, latent_size)), np.zeros(latent_size)
  else:
    kernel, bias = _components(texts, weight, latent_size)
  return {"kernel": kernel, "weight": weight}, bias


def _components(texts, weight, latent_size):
  half = texts.length // 2
  first = _vectors(weight, texts.ids, half)
  # The second half, moved to the front.
  places = np.arange(texts.ids.shape[1])[None] + half[:, None]
  moved = np.take_along_axis(
      texts.ids, np.minimum(places, texts.ids.shape[1] - 1), axis=1
  )
  second = _vectors(weight, moved, texts.length - half)
  directions = agreeing(first, second, latent_size)
  whole = _vectors(weight, texts.ids, texts.length)
  projected = whole @ directions
  scale = projected.std(0)  # Not 0, as its halves vary.
  kernel = np.zeros((len(weight), latent_size))
  bias = np.zeros(latent_size)
  count = len(scale)  # Z, or fewer.
  kernel[:, :count] = directions / scale
  bias[:count] = -projected.mean(0) / scale
  return kernel, bias


def agreeing(
    first: scipy.sparse.csr_matrix, second: scipy.sparse.csr_matrix, size: int
) -> np.ndarray:
  """Returns directions along which two halves agree, [V, size] or fewer.

  Those that agree most come first; where they don't, there are none.

  Args:
    first: [N, V], of the texts' first halves.
    second: [N, V], of their second halves.
    size: how many at most.
  """
  count, width = first.shape
  means = [np.asarray(x.mean(0)).ravel() for x in (first, second)]

  def times(v):
    a = first @ v - means[0] @ v
    b = second @ v - means[1] @ v
    # The centred matrices' transposes; what is centred sums to 0.
    return (
        first.T @ b - means[0] * b.sum() + second.T @ a - means[1] * a.sum()
    ) / count

  covariance = scipy.sparse.linalg.LinearOperator(
      (width, width), matvec=lambda v: times(np.ravel(v)), dtype=np.float64
  )
  start = np.random.default_rng(0).normal(size=width)
  values, directions = scipy.sparse.linalg.eigsh(
      covariance, min(size, width - 1), which="LA", v0=start
  )
  agree = values > 1e-9 * max(values.max(), 1e-30)
  return directions[:, agree][:, ::-1]


def _vectors(weight, ids, length) -> scipy.sparse.csr_matrix:
  """`word_heads.vectors` of many texts, of which few are not 0."""
  vectors = jax.jit(word_heads.vectors)
  parts = []
  for start in range(0, len(ids), _ROWS):
    rows = slice(start, start + _ROWS)
    found = vectors(weight, ids[rows], length[rows])
    parts.append(scipy.sparse.csr_matrix(np.asarray(found), dtype=np.float64))
  return scipy.sparse.vstack(parts).tocsr()
