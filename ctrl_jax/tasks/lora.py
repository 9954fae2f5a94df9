"""LoRA: the language model's loss, low-rank additions trained alone."""

import dataclasses
from typing import Any

import jax

from ctrl_jax.models import lora, transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.lora import LoraConfig
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.training import loss
from ctrl_jax.training.trainable import Phase

Batch = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class LoraTask:
  """p(x | c) of a frozen model plus low-rank additions.

  The loss is that of the merged weights. Over n tokens a matrix [D, D] then
  costs 6 r D^2 + 2 n D^2 FLOPs more than a frozen one: the addition, and the
  gradient to the merged matrix. Low-rank products beside it would cost 12 n D
  r, which is less by the count: at r = 8, D = 256 two matrices add 4 or 0.75 to
  the 48 n D^2 of a layer's step. But products with r columns run far below a
  device's speed, and merged weights leave the blocks what they are (joined
  projections, grouped heads, rotary positions, sharding).

  Attributes:
    config: the frozen model and its additions.
    chunk_tokens: tokens whose logits exist at one time in the loss.
  """

  config: LoraConfig
  chunk_tokens: int = 512

  phases = (Phase(rule=((r"lora/.*", True), (r"base/.*", False))),)

  @property
  def model(self) -> TransformerConfig:
    """The frozen model, and the merged one."""
    return self.config.base

  def init(self, key: jax.Array) -> Any:
    """Initial parameters in boxes, `{"base": ..., "lora": ...}`."""
    return {
        "base": transformer.init_boxed(self.model, key),
        "lora": lora.init_boxed(self.config, jax.random.fold_in(key, 1)),
    }

  def begin(self, params: Any) -> Any:
    """Where the parameters of a model to begin with go."""
    return {"base": params}

  def plain(self, params: Any) -> Any:
    """Parameters of one language model that computes what is trained."""
    return lora.merge(self.config, params["base"], params["lora"])

  def loss(
      self, params: Any, batch: Batch, dropout_key: jax.Array | None
  ) -> tuple[jax.Array, dict[str, jax.Array]]:
    """See `LanguageModelTask.loss`; dropout is the model's, as in fine-tuning.
    """
    task = LanguageModelTask(self.model, self.chunk_tokens)
    return task.loss(
        self.plain(params), batch, dropout_key,
        trainable=loss.Trainable(tables=(False,), bias=False),
    )

  def flops_per_token(self, length: int) -> float:
    """Training FLOPs a token; see `LanguageModelTask`.

    Forward, backward to the states, and the gradient to the merged matrices.
    """
    whole = LanguageModelTask(self.model).flops_per_token(length)
    shapes = jax.eval_shape(self.init, jax.random.key(0))["lora"]["layers"]
    merged = sum(
        own["a"].value.shape[0] * own["a"].value.shape[1]
        * own["b"].value.shape[2]
        for own in shapes.values()
    )
    return whole * 2 / 3 + 2 * merged
