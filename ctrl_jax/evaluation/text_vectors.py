"""Vectors of texts without a CVAE, which its latents are to be better than."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax import errors
from ctrl_jax.evaluation import held_out
from ctrl_jax.evaluation.held_out import Texts
from ctrl_jax.models import transformer


def lsa(
    train: Sequence[str], test: Sequence[str], size: int = 64, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
  """Returns latent semantic analysis, [N, size] and [M, size], of length 1.

  A truncated singular value decomposition of TF-IDF vectors of words
  (Deerwester et al. 1990), made of the training texts alone.

  Args:
    train: N texts.
    test: M texts.
    size: dimensions; fewer than different words.
    seed: of the decomposition.

  Raises:
    errors.UserError: too few words.
  """
  from sklearn import decomposition, pipeline, preprocessing
  from sklearn.feature_extraction import text as features

  vectors = pipeline.make_pipeline(
      features.TfidfVectorizer(sublinear_tf=True, stop_words="english"),
      decomposition.TruncatedSVD(size, random_state=seed),
      preprocessing.Normalizer(copy=False),
  )
  try:
    return vectors.fit_transform(train), vectors.transform(test)
  except ValueError as e:
    raise errors.UserError(
        f"The texts have too few words for {size} dimensions: give more texts."
    ) from e


def mean_states(model: Any, texts: Texts, batch_size: int = 16) -> np.ndarray:
  """Returns the mean of a model's last hidden states, float32 [N, D].

  Over all tokens of each text, control code and prompt included.

  Args:
    model: a `LanguageModel`; its heads and latent are left out.
    texts: N.
    batch_size: texts at a time.
  """

  @jax.jit
  def mean(params, ids, length):
    hidden = transformer.hidden_states(model.config, params, ids)
    real = (jnp.arange(ids.shape[1])[None] < length[:, None])[..., None]
    total = jnp.where(real, hidden, 0).astype(jnp.float32).sum(1)
    return total / jnp.maximum(length, 1)[:, None]

  found = []
  for batch in held_out.batches(texts, batch_size):
    ids = batch["tokens"][:, : model.config.max_length]
    places = np.arange(1, batch["tokens"].shape[1] + 1)
    end = (batch["weights"] * places[None]).max(1)
    length = np.minimum(end, ids.shape[1])
    found.append(np.asarray(mean(model.params, ids, length))[end > 0])
  return np.concatenate(found)
