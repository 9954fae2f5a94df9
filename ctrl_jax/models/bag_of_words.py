"""A latent predicts a text's words without their order (Zhao et al. 2017).

Beside a strong decoder a latent has little to say at first, and the KL presses
it to say nothing. Asked for the words of the text by itself, it learns what the
text is about from the first step. "Learning Discourse-level Diversity for
Neural Dialog Models using Conditional Variational Autoencoders", section 3.3;
used in training alone.

Letters as in `models/transformer.py`; Z latent.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ctrl_jax.models import injections
from ctrl_jax.models.config import TransformerConfig

Params = Any


def init_boxed(base: TransformerConfig, latent: int, key: jax.Array) -> Params:
  """Initial parameters in boxes: kernel [Z, V] and bias [V]."""
  return injections.linear(
      key, (None, "vocab"), latent, base.padded_vocab_size
  )


def nll(
    base: TransformerConfig,
    params: Params,
    z_BZ: jax.Array,
    labels_BT: jax.Array,
    weights_BT: jax.Array,
) -> jax.Array:
  """-sum_t log p(y_t | z), one distribution for all places, float32 [B].

  Args:
    base: the decoder's sizes.
    params: of `init_boxed`.
    z_BZ: float32 latents.
    labels_BT: int32 ids of the text.
    weights_BT: float32, 0 for what does not count.
  """
  logits_BV = z_BZ @ params["kernel"] + params["bias"][None]
  logits_BV = logits_BV[:, : base.vocab_size]
  log_p_BV = jax.nn.log_softmax(logits_BV.astype(jnp.float32))
  log_p_BT = jnp.take_along_axis(log_p_BV, labels_BT, axis=1)
  return -(log_p_BT * weights_BT).sum(1)
