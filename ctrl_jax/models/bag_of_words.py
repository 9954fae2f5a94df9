"""A latent predicts a text's words without their order (Zhao et al. 2017).

Beside a strong decoder a latent has little to say at first, and the KL presses
it to say nothing. Asked for the words of the text by itself, it learns what the
text is about from the first step. "Learning Discourse-level Diversity for
Neural Dialog Models using Conditional Variational Autoencoders", section 3.3;
used in training alone.

A text's words are mostly those of every text. With a smoothing a, a word of
frequency p counts a / (a + p) (smooth inverse frequency, Arora et al. 2017, "A
Simple but Tough-to-Beat Baseline for Sentence Embeddings"), so that what
predicts them is what tells texts apart.

Letters as in `models/transformer.py`; Z latent.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from ctrl_jax.models import injections
from ctrl_jax.models.config import TransformerConfig

Params = Any


def init_boxed(base: TransformerConfig, latent: int, key: jax.Array) -> Params:
  """Initial parameters in boxes: kernel [Z, V], bias and frequency [V].

  The frequencies, all alike at first, are not trained.
  """
  size = base.padded_vocab_size
  found = injections.linear(key, (None, "vocab"), latent, size)
  alike = jnp.full(size, 1 / base.vocab_size)
  return found | {"frequency": nn.LogicallyPartitioned(alike, ("vocab",))}


def smoothed(frequency: Any, smoothing: float) -> Any:
  """Returns a / (a + p) of words' frequencies, an array like theirs.

  Args:
    frequency: p, an array of NumPy's or JAX's.
    smoothing: a; 0: 1 for all.
  """
  if not smoothing:
    return frequency * 0 + 1
  return smoothing / (smoothing + frequency)


def nll(
    base: TransformerConfig,
    params: Params,
    z_BZ: jax.Array,
    labels_BT: jax.Array,
    weights_BT: jax.Array,
    smoothing: float = 0.0,
) -> jax.Array:
  """-sum_t log p(y_t | z), one distribution for all places, float32 [B].

  Args:
    base: the decoder's sizes.
    params: of `init_boxed`.
    z_BZ: float32 latents.
    labels_BT: int32 ids of the text.
    weights_BT: float32, 0 for what does not count.
    smoothing: a, see above; 0: all words count alike.
  """
  logits_BV = z_BZ @ params["kernel"] + params["bias"][None]
  logits_BV = logits_BV[:, : base.vocab_size]
  log_p_BV = jax.nn.log_softmax(logits_BV.astype(jnp.float32))
  p_BT = jax.lax.stop_gradient(params["frequency"])[labels_BT]
  weights_BT = weights_BT * smoothed(p_BT, smoothing)
  log_p_BT = jnp.take_along_axis(log_p_BV, labels_BT, axis=1)
  return -(log_p_BT * weights_BT).sum(1)
