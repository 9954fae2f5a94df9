"""Language modelling: initial parameters, loss and metrics of one batch."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.training import loss
from ctrl_jax.training.trainable import Phase

Batch = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class LanguageModelTask:
  """p(x | c): each token from the control code and the tokens before it.

  Attributes:
    model: the Transformer.
    chunk_tokens: tokens whose logits exist at one time in the loss.
  """

  model: TransformerConfig
  chunk_tokens: int = 512

  phases = (Phase(),)  # All of it trains.

  def init(self, key: jax.Array) -> Any:
    """Initial parameters in boxes that name their logical axes."""
    return transformer.init_boxed(self.model, key)

  def begin(self, params: Any) -> Any:
    """Where the parameters of a model to begin with go."""
    return params

  def plain(self, params: Any) -> Any:
    """Parameters of one language model that computes what is trained."""
    return params

  def loss(
      self,
      params: Any,
      batch: Batch,
      dropout_key: jax.Array | None,
      trainable: loss.Trainable | None = None,
  ) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Sum of negative log-likelihoods over a batch.

    Args:
      params: the parameter tree.
      batch: `tokens` int32 [B, T+1], the control code first, and `weights`
        [B, T+1], 0 where a token is no target (code, padding, a pair's prompt).
      dropout_key: None in evaluation.
      trainable: what of the head's inputs gets a gradient; None for all.

    Returns:
      The weighted sum, and `nll` [B] and `weight` [B], sums over each row.
    """
    hidden_BTD = transformer.hidden_states(
        self.model, params, batch["tokens"][:, :-1], dropout_key=dropout_key
    )
    return head_loss(
        self.model, params, (hidden_BTD,), batch, self.chunk_tokens,
        trainable=trainable,
    )

  def flops_per_token(self, length: int) -> float:
    """Floating-point operations of training on one token.

    Three forward passes' worth (forward, and twice that backward) of matrix
    products, causal attention counted half, no recomputation: the convention
    of MaxText's MFU.
    """
    m = self.model
    heads = 2 * (m.num_heads + m.kv_heads) * m.head_size
    up_and_down = 3 if m.activation == "swiglu" else 2
    per_layer = m.d_model * (heads + up_and_down * m.d_ff)
    products = m.num_layers * per_layer + m.vocab_size * m.d_model
    attention = m.num_layers * length * m.d_model
    return 3 * 2 * (products + attention)


def head_loss(
    model: TransformerConfig,
    params: Any,
    hiddens: tuple[jax.Array, ...],
    batch: Batch,
    chunk_tokens: int,
    *,
    tables: tuple[jax.Array | None, ...] = (),
    row_logits: jax.Array | None = None,
    trainable: loss.Trainable | None = None,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """The loss of hidden states through a model's head, for tasks of all kinds.

  Args:
    model: whose head it is.
    params: its parameters.
    hiddens: [B, T, D] for the model's own table, then one for each of `tables`.
    batch: see `LanguageModelTask.loss`.
    chunk_tokens: tokens whose logits exist at one time.
    tables: see `training.loss.cross_entropy`, like the next two.
    row_logits: of a whole row.
    trainable: what gets a gradient.

  Returns:
    The weighted sum, and `nll` [B] and `weight` [B], sums over each row.
  """
  weights = batch["weights"][:, 1:].astype(jnp.float32)
  total, nll_BT = loss.cross_entropy(
      hiddens,
      (transformer.head_table(model, params), *tables),
      params["head"]["bias"] if model.head_bias else None,
      row_logits,
      batch["tokens"][:, 1:],
      weights,
      vocab_size=model.vocab_size,
      chunk_tokens=chunk_tokens,
      trainable=trainable,
  )
  return total, {"nll": (nll_BT * weights).sum(1), "weight": weights.sum(1)}
