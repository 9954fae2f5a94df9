"""PPLM's discriminator: a linear head on a frozen model's mean hidden state.

As run_pplm_discrim_train.py of the original (Adam at 1e-4, 10 epochs, batches
of 64), but that the mean is over a text's tokens by their number: there token 0
counts as padding wherever it stands. The model being frozen, its states are
computed once.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ctrl_jax import errors
from ctrl_jax.models import transformer


@dataclasses.dataclass(frozen=True)
class Discriminator:
  """log p(class | text) = log softmax(mean hidden state @ kernel + bias).

  Attributes:
    kernel: float32 [D, C].
    bias: float32 [C].
    classes: C names.
  """

  kernel: np.ndarray
  bias: np.ndarray
  classes: tuple[str, ...]

  def log_probs(self, means: np.ndarray) -> np.ndarray:
    """Float32 [N, C] of mean hidden states [N, D]."""
    logits = jnp.asarray(means) @ self.kernel + self.bias[None]
    return np.asarray(jax.nn.log_softmax(logits))


def train(
    model: Any,
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    code: str | None = None,
    epochs: int = 10,
    batch_size: int = 64,
    learning_rate: float = 1e-4,
    seed: int = 0,
) -> Discriminator:
  """Trains a discriminator; the same call gives the same one.

  Args:
    model: a `LanguageModel`, which does not change.
    texts: a text longer than the model's window counts with its first tokens.
    labels: a class name each; two classes at least.
    code: a control code in front of every text; it is part of the mean, as in
      `pplm.generate`.
    epochs: passes over the texts.
    batch_size: texts an update.
    learning_rate: Adam's.
    seed: of the first parameters and the order.

  Raises:
    errors.UserError: as many texts as not labels, one class alone, or an empty
      text without a code.
  """
  if len(texts) != len(labels):
    raise errors.UserError(
        f"{len(texts)} texts and {len(labels)} labels: give one a text."
    )
  classes = tuple(sorted(set(labels)))
  if len(classes) < 2:
    raise errors.UserError(
        f"A discriminator tells classes apart, and there are {len(classes)}."
    )
  means = mean_states(model, texts, code)
  targets = np.array([classes.index(label) for label in labels], np.int32)
  rng = np.random.default_rng(seed)
  # As torch's nn.Linear begins.
  bound = means.shape[1] ** -0.5
  draw = lambda *shape: jnp.asarray(
      rng.uniform(-bound, bound, shape), jnp.float32
  )
  params = {"kernel": draw(means.shape[1], len(classes)),
            "bias": draw(len(classes))}
  optimizer = optax.adam(learning_rate)
  state = optimizer.init(params)
  for _ in range(epochs):
    order = rng.permutation(len(texts))
    for first in range(0, len(order), batch_size):
      rows = order[first:first + batch_size]
      params, state = _update(
          optimizer, params, state, means[rows], targets[rows]
      )
  return Discriminator(*map(np.asarray, (params["kernel"], params["bias"])),
                       classes)


@functools.partial(jax.jit, static_argnums=0)
def _update(optimizer, params, state, means, targets):
  def loss(params):
    logits = means @ params["kernel"] + params["bias"][None]
    return optax.softmax_cross_entropy_with_integer_labels(
        logits, targets
    ).mean()

  updates, state = optimizer.update(jax.grad(loss)(params), state)
  return optax.apply_updates(params, updates), state


def mean_states(
    model: Any, texts: Sequence[str], code: str | None = None,
    batch_size: int = 32,
) -> np.ndarray:
  """Mean of each text's hidden states after the final norm, float32 [N, D].

  Args:
    model: a `LanguageModel`.
    texts: see `train`.
    code: see `train`.
    batch_size: texts computed together.

  Raises:
    errors.UserError: an empty text without a code.
  """
  size = model.config.max_length
  prefix = model.tokenizer.begin_ids if code is None else (
      model.tokenizer.code_ids(code)
  )
  sequences = [[*prefix, *model.tokenizer.encode(t)][:size] for t in texts]
  for i, ids in enumerate(sequences):
    if not ids:
      raise errors.UserError(f"Text {i + 1} of {len(texts)} is empty.")
  means = []
  for first in range(0, len(sequences), batch_size):
    rows = sequences[first:first + batch_size]
    longest = min(-(-max(map(len, rows)) // 16) * 16, size)
    ids = np.zeros((len(rows), longest), np.int32)
    for row, own in zip(ids, rows):
      row[: len(own)] = own
    lengths = np.array([len(own) for own in rows], np.int32)
    means.append(np.asarray(_means(model.config, model.params, ids, lengths)))
  return np.concatenate(means)


@functools.partial(jax.jit, static_argnums=0)
def _means(config, params, ids, lengths):
  hidden = transformer.hidden_states(config, params, ids).astype(jnp.float32)
  inside = jnp.arange(ids.shape[1])[None] < lengths[:, None]
  total = jnp.where(inside[..., None], hidden, 0).sum(1)
  return total / lengths[:, None].astype(jnp.float32)
