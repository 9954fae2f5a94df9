"""What a CVAE learns of training texts before the first update.

How frequent words are, for `models/bag_of_words.py`; and posterior heads that
tell texts apart, over words where there is a head over words
(`tasks/cvae_words.py`), else over the encoder's states.

States of a trained model have much in common from text to text. Random heads
turn that into one large mean for all, and what differs into less than the
noise: the KL is high, and z says next to nothing (measured: 19 nats, of which
0.8 are mutual information). So the heads begin as the principal components of
the training texts' pooled vectors, each scaled to mean 0 and variance 1; the
noise's variance is `VARIANCE`; and a learned prior begins as N(0, 1). Data
decide where a layer begins in Salimans and Kingma (2016), too.

Letters as in `models/cvae.py`.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax.models import cvae
from ctrl_jax.tasks import cvae as task_lib
from ctrl_jax.tasks import cvae_words
from ctrl_jax.training import sharding

Params = Any

# Of the posterior at the start: some 0.8 nats a component reach the decoder.
VARIANCE = 0.25
# Texts that the components are computed from, at least (whole batches).
TEXTS = 1024


class Moments(NamedTuple):
  """Sums over texts, of their pooled vectors but for the last.

  Attributes:
    count: float32, texts.
    total: float32 [D].
    products: float32 [D, D], of x x^T.
    words: float32 [V], how often each occurs.
  """

  count: jax.Array
  total: jax.Array
  products: jax.Array
  words: jax.Array


def moments(
    task: task_lib.CVAETask, params: Params, batch: task_lib.Batch
) -> Moments:
  """Returns a batch's sums; rows without a target are left out."""
  whole = task_lib.lengths(batch["weights"]).whole
  tokens = batch["tokens"][:, : task.model.max_length]
  x_BD = cvae.pooled(
      task.cvae, params["cvae"], params["base"], tokens,
      jnp.minimum(whole, tokens.shape[1]),
  ).astype(jnp.float32)
  real_B = (whole > 0).astype(jnp.float32)
  x_BD = jnp.where(real_B[:, None] > 0, x_BD, 0.0)
  products = jnp.einsum("bd,be->de", x_BD, x_BD, precision="highest")
  labels, weights = batch["tokens"][:, 1:], batch["weights"][:, 1:]
  words = jnp.zeros(task.model.padded_vocab_size).at[labels].add(weights)
  return Moments(real_B.sum(), x_BD.sum(0), products, words)


def heads(found: Moments, latent_size: int) -> dict[str, dict[str, np.ndarray]]:
  """Returns the heads of a posterior, `mean` and `log_variance`.

  Components without variance (fewer texts than Z, say) give a mean of 0.

  Args:
    found: of all texts.
    latent_size: Z.
  """
  count, total, products = (np.asarray(x, np.float64) for x in found[:3])
  center = total / count
  covariance = products / count - np.outer(center, center)
  variances, directions = np.linalg.eigh(covariance)
  variances = variances[::-1][:latent_size]
  directions = directions[:, ::-1][:, :latent_size]
  has_any = variances > 1e-6 * max(variances[0], 1e-30)
  scale = np.where(has_any, np.where(has_any, variances, 1.0) ** -0.5, 0.0)
  kernel = np.zeros((len(center), latent_size))
  kernel[:, : len(scale)] = directions * scale
  return _heads(kernel, -center @ kernel)


def _heads(kernel: np.ndarray, bias: np.ndarray):
  """Heads with these means; the variance is the same for all texts."""
  return {
      "mean": {"kernel": kernel, "bias": bias},
      "log_variance": {
          "kernel": np.zeros_like(kernel),
          "bias": np.full(len(bias), math.log(VARIANCE)),
      },
  }


def num_texts(task: task_lib.CVAETask) -> int:
  """Returns how many texts `begin` wants to read; 0 for none."""
  if not task.cvae.has_latent:
    return 0
  if task.cvae.reads_words:
    return cvae_words.TEXTS
  return TEXTS if wants_texts(task) else 0


def wants_texts(settings: Any) -> bool:
  """Whether something but the head over words begins with training texts.

  Args:
    settings: a task, or a configuration's section `cvae`.
  """
  return settings.init_heads == "components" or bool(
      settings.bag_of_words and settings.word_smoothing
  )


def begin(task: task_lib.CVAETask, params: Params, batches) -> Params:
  """Returns parameters that know the texts of `batches`.

  Args:
    task: the CVAE's.
    params: as `CVAETask.init` makes them, on all devices.
    batches: of training texts, on all devices.
  """
  own = params["cvae"]
  if task.cvae.reads_words:
    new = _of_words(task, own, cvae_words.read(task, batches))
  else:
    new = _of_states(task, own, _sum(task, params, batches))

  def place(value, old):
    value = np.asarray(value, old.dtype)
    return jax.make_array_from_callback(
        old.shape, old.sharding, value.__getitem__
    )

  placed = {name: jax.tree.map(place, new[name], own[name]) for name in new}
  return params | {"cvae": own | placed}


def _sum(task: task_lib.CVAETask, params: Params, batches) -> Moments:
  """Returns the sums over all batches, on the host."""

  @jax.jit
  def add(sums, params, batch):
    sums = jax.tree.map(jnp.add, sums, moments(task, params, batch))
    return sharding.everywhere(sums)

  width = task.model.d_model
  found = Moments(
      jnp.zeros(()), jnp.zeros(width), jnp.zeros((width, width)),
      jnp.zeros(task.model.padded_vocab_size),
  )
  for batch in batches:
    found = add(found, params, batch)
  return jax.device_get(found)


def _of_states(task: task_lib.CVAETask, own: Params, found: Moments) -> Params:
  """Returns those of the CVAE's parameters that the sums decide."""
  new = _frequencies(own, found.words)
  if task.init_heads == "components":
    new |= _posterior(own, heads(found, task.cvae.latent_size))
  return new


def _of_words(
    task: task_lib.CVAETask, own: Params, texts: cvae_words.Texts
) -> Params:
  """Returns those of the CVAE's parameters that the texts' words decide.

  The heads over states begin at 0: what they add is learned.
  """
  has_components = task.init_heads == "components"
  size = task.cvae.latent_size
  words, bias = cvae_words.begin(
      texts, size, task.word_smoothing, has_components
  )
  new = _frequencies(own, texts.targets) | {"words": words}
  if has_components:
    kernel = np.zeros((task.model.d_model, size))
    new |= _posterior(own, _heads(kernel, bias))
  return new


def _posterior(own: Params, found: Params) -> Params:
  new = {"posterior": found}
  if "prior" in own:
    new["prior"] = jax.tree.map(np.zeros_like, found)
  return new


def _frequencies(own: Params, words: np.ndarray) -> Params:
  if "bag_of_words" not in own:
    return {}
  frequency = words / max(words.sum(), 1.0)
  return {"bag_of_words": own["bag_of_words"] | {"frequency": frequency}}
