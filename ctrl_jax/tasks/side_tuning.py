"""Side-tuning: loss of a frozen model merged with a side network."""

import dataclasses
from typing import Any

import jax

from ctrl_jax.models import side, transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.side import SideConfig
from ctrl_jax.tasks.language_model import LanguageModelTask, head_loss
from ctrl_jax.training import loss
from ctrl_jax.training.trainable import Phase

Batch = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class SideTuningTask:
  """p(x | c) through the frozen head, of alpha B(x) + (1 - alpha) S(x).

  Attributes:
    side: the side network and its frozen model.
    chunk_tokens: tokens whose logits exist at one time in the loss.
  """

  side: SideConfig
  chunk_tokens: int = 512

  phases = (Phase(rule=((r"side/.*", True), (r"base/.*", False))),)

  @property
  def model(self) -> TransformerConfig:
    """The frozen model."""
    return self.side.base

  def init(self, key: jax.Array) -> Any:
    """Initial parameters in boxes, `{"base": ..., "side": ...}`."""
    return {
        "base": transformer.init_boxed(self.model, key),
        "side": self.side.init_boxed(jax.random.fold_in(key, 1)),
    }

  def begin(self, params: Any) -> Any:
    """Where the parameters of a model to begin with go."""
    start = {"base": params}
    if self.side.init == "first_layers":
      start["side"] = transformer.shallow(params, self.side.num_layers)
    return start

  def loss(
      self, params: Any, batch: Batch, dropout_key: jax.Array | None
  ) -> tuple[jax.Array, dict[str, jax.Array]]:
    """See `LanguageModelTask.loss`; the frozen model has no dropout."""
    base, own = params["base"], params["side"]
    ids = batch["tokens"][:, :-1]
    base_hidden = transformer.hidden_states(self.model, base, ids)
    hidden = side.hidden_states(
        self.side, own, base, ids, dropout_key=dropout_key
    )
    shift = self.side.shift(own, base_hidden, hidden)
    return head_loss(
        self.model, base, (base_hidden + shift,), batch, self.chunk_tokens,
        trainable=loss.Trainable(tables=(False,), bias=False),
    )

  def flops_per_token(self, length: int) -> float:
    """Training FLOPs a token; see `LanguageModelTask`.

    The frozen model's forward, three times the side's, and the gradient from
    the head to the states.
    """
    whole = LanguageModelTask(self.model).flops_per_token(length) / 3
    head = 2 * self.model.d_model * self.model.vocab_size
    own = LanguageModelTask(self.side.transformer).flops_per_token(length)
    own -= 6 * self.side.d_model * self.model.vocab_size  # It has no head.
    if self.side.d_model != self.model.d_model:
      own += 12 * self.side.d_model * self.model.d_model
    return whole + head + own
