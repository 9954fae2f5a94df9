"""Auxiliary Tuning: loss of a frozen model plus a network that adds logits."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ctrl_jax import errors
from ctrl_jax.models import transformer
from ctrl_jax.models.auxiliary import AuxiliaryConfig
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.tasks.language_model import LanguageModelTask, head_loss
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
    reads_states: whether training batches hold the frozen model's states, so
      that it is not run; for the count of FLOPs.
  """

  auxiliary: Any
  attribute_dropout: float = 0.0
  chunk_tokens: int = 512
  reads_states: bool = False

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

  def frozen_states(
      self, params: Any, ids_BT: jax.Array
  ) -> dict[str, jax.Array]:
    """What is read of the frozen model, [B, T, D] each.

    A batch that holds these by their names spares `loss` computing them.

    Returns:
      base_hidden, behind the final norm; base_depth_L for each L of the taps.
    """
    hidden, taps = transformer.hidden_states_with_taps(
        self.model, params["base"], ids_BT, self.auxiliary.taps
    )
    return {"base_hidden": hidden} | {
        f"base_depth_{depth}": x
        for depth, x in zip(self.auxiliary.taps, taps, strict=True)
    }

  def loss(
      self, params: Any, batch: Batch, dropout_key: jax.Array | None
  ) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Sum of negative log-likelihoods over a batch.

    Args:
      params: as `init` makes them.
      batch: as `LanguageModelTask.loss` has it, and `attribute` int32 [B, A]
        with `attribute_length` int32 [B]; if at hand `frozen_states`, too.
      dropout_key: None in evaluation. The frozen model has no dropout: it must
        be in training what it is in decoding.

    Returns:
      The weighted sum, and `nll` [B] and `weight` [B], sums over each row.
    """
    base, auxiliary = params["base"], params["auxiliary"]
    ids, length = batch["tokens"][:, :-1], batch["attribute_length"]
    if dropout_key is not None:
      attribute_key, dropout_key = jax.random.split(dropout_key)
      keep = jax.random.bernoulli(
          attribute_key, 1 - self.attribute_dropout, length.shape
      )
      length = jnp.where(keep, length, 0)
    states = batch
    if "base_hidden" not in batch:
      states = self.frozen_states(params, ids)
    base_hidden = states["base_hidden"]
    taps = tuple(states[f"base_depth_{d}"] for d in self.auxiliary.taps)
    output = self.auxiliary.output(
        auxiliary, base, ids, taps, batch["attribute"], length,
        dropout_key=dropout_key,
    )
    if output.table is None and not output.is_logits:
      shift = self.auxiliary.shift(auxiliary, base_hidden, output.hidden)
      hiddens, tables = (base_hidden + shift,), ()
      trainable = loss.Trainable((True,), (False,), bias=False)
    else:
      hiddens, tables = (base_hidden, output.hidden), (output.table,)
      trainable = loss.Trainable((False, True), (False, True), bias=False)
    return head_loss(
        self.model, base, hiddens, batch, self.chunk_tokens, tables=tables,
        trainable=trainable,
    )

  def flops_per_token(self, length: int) -> float:
    """Training FLOPs a token: the base's forward, three times the auxiliary's.

    A module of one's own counts as nothing; see `LanguageModelTask`.
    """
    whole = LanguageModelTask(self.model).flops_per_token(length) / 3
    if self.reads_states:  # Its head is left.
      whole = 2 * self.model.d_model * self.model.vocab_size
    c = self.auxiliary
    if not hasattr(c, "transformer"):
      return whole
    whole += own_flops(c, length)
    if c.kind == "independent":
      return whole
    # The head's product is the base's; its gradient to the states is new.
    return whole + 2 * self.model.d_model * self.model.vocab_size


def own_flops(config: AuxiliaryConfig, length: int) -> float:
  """Training FLOPs a token of an auxiliary alone; see `LanguageModelTask`.

  A token bears its share of what is computed for the attribute's positions.
  """
  base, positions = config.base, 1 + config.attribute_length / length
  # Every token sees all of the attribute, not half of it.
  reach = length + 2 * config.attribute_length
  head = 6 * config.d_model * base.vocab_size
  layers = LanguageModelTask(config.transformer).flops_per_token(reach) - head
  if config.kind == "independent":
    return layers * positions + head
  projection = 6 * config.d_model * base.d_model
  own = (layers + projection) * positions + projection
  if config.combination == "gate":
    own += 6 * 11 * base.d_model**2  # Its matrices, see `auxiliary.Gate`.
  if not config.latent_size:
    first = dataclasses.replace(base, num_layers=config.reused_layers)
    forward = LanguageModelTask(first).flops_per_token(
        config.attribute_length
    ) / 3 - 2 * base.d_model * base.vocab_size
    own += forward * (positions - 1)
  return own


def check(config: Any, manifest: Any) -> None:
  """Refuses data that an auxiliary cannot learn from.

  Args:
    config: of the run, see `ctrl_jax.config.default`.
    manifest: the prepared data set.

  Raises:
    errors.UserError: there are no attributes, or longer ones than it takes.
  """
  if not manifest.attribute_length:
    raise errors.UserError(
        "task.name='auxiliary_tuning' needs attributes, and the data set has"
        " none: set data.attribute_length and the sources' attribute, and"
        " prepare it again."
    )
  if manifest.attribute_length > config.auxiliary.attribute_length:
    raise errors.UserError(
        f"The data's attributes have up to {manifest.attribute_length} tokens,"
        f" more than auxiliary.attribute_length="
        f"{config.auxiliary.attribute_length}: raise it, or prepare with a"
        " smaller data.attribute_length."
    )
