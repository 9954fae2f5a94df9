"""Auxiliary Tuning: loss of a frozen model plus a network that adds logits."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.tasks import language_model
from ctrl_jax.training import loss
from ctrl_jax.training.trainable import Phase

Batch = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class AuxiliaryTuningTask:
  """p(x | attribute) as softmax(logits_LM + logits_AUX), LM frozen (eq. 4).

  Attributes:
    auxiliary: `models.auxiliary.AuxiliaryConfig`, or anything with its
      methods, as `models.auxiliary.LinenAuxiliary`.
    attribute_dropout: share of training rows that get no attribute, so that
      an unconditional auxiliary exists (for classifier-free guidance).
    chunk_tokens: tokens whose logits exist at one time in the loss.
  """

  auxiliary: Any
  attribute_dropout: float = 0.0
  chunk_tokens: int = 512

  phases = (Phase(rule=((r"auxiliary/.*", True), (r"base/.*", False))),)

  @property
  def model(self) -> TransformerConfig:
    """The frozen model."""
    return self.auxiliary.base

  def init(self, key: jax.Array) -> Any:
    """Initial parameters in boxes, `{"base": ..., "auxiliary": ...}`."""
    return {
        "base": transformer.init_boxed(self.model, key),
        "auxiliary": self.auxiliary.init_boxed(jax.random.fold_in(key, 1)),
    }

  def begin(self, params: Any) -> Any:
    """Where the parameters of a model to begin with go."""
    return {"base": params}

  def loss(
      self, params: Any, batch: Batch, dropout_key: jax.Array | None
  ) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Sum of negative log-likelihoods over a batch.

    Args:
      params: as `init` makes them.
      batch: as `LanguageModelTask.loss` has it, and `attribute` int32 [B, A]
        with `attribute_length` int32 [B].
      dropout_key: None in evaluation. The frozen model has no dropout: it must
        be in training what it is in decoding.

    Returns:
      The weighted sum, and `nll` [B] and `weight` [B], sums over each row.
    """
    base, auxiliary = params["base"], params["auxiliary"]
    tokens, length = batch["tokens"], batch["attribute_length"]
    weights = batch["weights"][:, 1:].astype(jnp.float32)
    if dropout_key is not None:
      attribute_key, dropout_key = jax.random.split(dropout_key)
      keep = jax.random.bernoulli(
          attribute_key, 1 - self.attribute_dropout, length.shape
      )
      length = jnp.where(keep, length, 0)
    base_hidden, taps = transformer.hidden_states_with_taps(
        self.model, base, tokens[:, :-1], self.auxiliary.taps
    )
    output = self.auxiliary.output(
        auxiliary, base, tokens[:, :-1], taps, batch["attribute"], length,
        dropout_key=dropout_key,
    )
    table = transformer.head_table(self.model, base)
    if output.table is None and not output.is_logits:
      shift = self.auxiliary.shift(auxiliary, base_hidden, output.hidden)
      hiddens = (base_hidden + shift,)
      tables = (table,)
      trainable = loss.Trainable((True,), (False,), bias=False)
    else:
      hiddens = (base_hidden, output.hidden)
      tables = (table, output.table)
      trainable = loss.Trainable((False, True), (False, True), bias=False)
    total, nll_BT = loss.cross_entropy(
        hiddens,
        tables,
        base["head"]["bias"] if self.model.head_bias else None,
        None,
        tokens[:, 1:],
        weights,
        vocab_size=self.model.vocab_size,
        chunk_tokens=self.chunk_tokens,
        trainable=trainable,
    )
    rows = {"nll": (nll_BT * weights).sum(1), "weight": weights.sum(1)}
    return total, rows

  def flops_per_token(self, length: int) -> float:
    """Training FLOPs a token: the base's forward, three times the auxiliary's.

    A module of one's own counts as nothing; see `LanguageModelTask`.
    """
    base = language_model.LanguageModelTask(self.model)
    own = getattr(self.auxiliary, "transformer", None)
    total = base.flops_per_token(length) / 3
    if own is None:
      return total
    per_layer = 4 * own.d_model**2 + 2 * own.d_model * own.d_ff
    products = own.num_layers * per_layer
    if self.auxiliary.kind == "feature":
      products += 2 * own.d_model * self.model.d_model
      # The head's product is the base's; its gradient to the states is new.
      total += 2 * self.model.d_model * self.model.vocab_size
    else:
      products += own.d_model * own.vocab_size
    reach = length + 2 * self.auxiliary.attribute_length
    return total + 6 * (products + own.num_layers * reach * own.d_model)
