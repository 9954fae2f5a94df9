"""Where the head over words (`models/word_heads.py`) begins.

Latent semantic analysis takes the directions along which texts differ most,
be it by what they are about or by what one sentence says. Here the directions
are those along which the two halves of a text agree: the eigenvectors, with the
largest eigenvalues, of the halves' covariance P^T Q + Q^T P.

Letters as in `models/cvae.py`.
"""

from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from ctrl_jax.models import bag_of_words, word_heads
from ctrl_jax.tasks import cvae as task_lib
from ctrl_jax.training import sharding

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

  width, size = task.model.max_length, task.model.padded_vocab_size

  @jax.jit
  def of(batch):
    length = task_lib.lengths(batch["weights"]).whole
    return sharding.everywhere((
        batch["tokens"], batch["weights"] > 0, jnp.minimum(length, width)
    ))

  ids, lengths, targets = [], [], np.zeros(size, np.int64)
  for batch in batches:
    tokens, is_target, length = jax.device_get(of(batch))
    targets += np.bincount(tokens[is_target], minlength=size)
    ids.append(tokens[length > 0, :width])
    lengths.append(length[length > 0])
  return Texts(np.concatenate(ids), np.concatenate(lengths), targets)


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
  weight = bag_of_words.smoothed(read_V / max(read_V.sum(), 1), smoothing)
  kernel, bias = np.zeros((size, latent_size)), np.zeros(latent_size)
  if has_components:
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
