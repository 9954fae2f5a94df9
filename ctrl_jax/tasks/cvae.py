"""The CVAE's loss: a text's negative log-likelihood and a KL divergence."""

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ctrl_jax import errors
from ctrl_jax.models import (
    bag_of_words,
    cvae,
    gaussian,
    injections,
    transformer,
)
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae_config import CVAEConfig
from ctrl_jax.models.gaussian import Gaussian
from ctrl_jax.tasks import auxiliary_tuning, kl_penalty
from ctrl_jax.tasks.annealing import Schedule
from ctrl_jax.tasks.language_model import LanguageModelTask, head_loss
from ctrl_jax.training import loss
from ctrl_jax.training.trainable import Phase

Batch = dict[str, jax.Array]


class Lengths(NamedTuple):
  """Where the parts of a batch's rows end, int32 [B] each.

  Attributes:
    prompt: tokens before the first target: control code and prompt.
    whole: tokens up to the last target, it included.
  """

  prompt: jax.Array
  whole: jax.Array


def lengths(weights: jax.Array) -> Lengths:
  """Reads off `weights` [B, W] where prompts and texts end.

  A pair's record has weight 0 on code and prompt, 1 on the target with its end
  symbol, and 0 on padding: so the first and the last token of weight say all,
  and records need no further field. A row without a target has lengths 0.
  """
  target = weights > 0
  width = target.shape[1]
  first = jnp.argmax(target, axis=1)
  end = width - jnp.argmax(target[:, ::-1], axis=1)
  return Lengths(
      *(jnp.where(target.any(1), x, 0).astype(jnp.int32) for x in (first, end))
  )


@dataclasses.dataclass(frozen=True)
class CVAETask:
  """-E log p(y | x, z) + beta KL(q(z | x, y) || p(z | x)), equation 2.

  Attributes:
    cvae: the latent's parts, and the decoder's sizes.
    schedule: beta.
    kl_scale: "per_token", the negative ELBO a token: (CE_sum + beta KL) / T;
      or "original", as the authors' code: CE_mean + beta KL, whose KL weighs T
      times (the batch's tokens a sequence) what it does in the ELBO.
    free_bits: nats a dimension that cost nothing, on the batch's mean (Kingma
      et al. 2016); 0 is off.
    kl_floor: nats a sequence that cost nothing, on the batch's mean; 0 is off.
    bag_of_words: weight of `models/bag_of_words.py` in the loss.
    word_smoothing: how little frequent words count there, and where the
      posterior reads words; 0: all alike.
    init_heads: where the posterior's heads begin, see `tasks/cvae_init.py`.
    freeze_steps: so many steps the decoder and the encoder's layers, which
      come from a trained model, stand still, and only new parameters train.
    train_base: whether the decoder trains after that; if not it is frozen for
      good, and the latent's parts are a head beside it.
    chunk_tokens: tokens whose logits exist at one time in the loss.

  Raises:
    errors.UserError: an unknown scale, or a number out of range.
  """

  cvae: CVAEConfig
  schedule: Schedule = Schedule()
  kl_scale: str = "per_token"
  free_bits: float = 0.0
  kl_floor: float = 0.0
  bag_of_words: float = 0.0
  word_smoothing: float = 0.0
  init_heads: str = "random"
  freeze_steps: int = 0
  train_base: bool = True
  chunk_tokens: int = 512

  # `TrainStep` passes `loss` the step, which beta depends on.
  loss_takes_step = True

  def __post_init__(self):
    errors.check_choices(
        "cvae", self, kl_scale=kl_penalty.SCALES,
        init_heads=("random", "components"),
    )
    for field in (
        "free_bits", "kl_floor", "bag_of_words", "word_smoothing",
        "freeze_steps",
    ):
      if not 0 <= getattr(self, field) < float("inf"):
        raise errors.UserError(
            f"cvae.{field}={getattr(self, field)} must be 0 or more, and"
            " finite."
        )

  @property
  def model(self) -> TransformerConfig:
    """The decoder."""
    return self.cvae.base

  @property
  def kl_cost(self) -> kl_penalty.KLPenalty:
    """What a batch's KL costs, before beta."""
    return kl_penalty.KLPenalty(self.kl_scale, self.free_bits, self.kl_floor)

  @property
  def loss_takes_sums(self) -> bool:
    """Whether `TrainStep` passes `loss` the `sums` of all micro-batches."""
    return self.cvae.has_latent and self.kl_cost.needs_whole

  @property
  def phases(self) -> tuple[Phase, ...]:
    """New parameters alone, then the rest, too."""
    base = (r"base/.*", self.train_base)
    last = Phase(rule=((r"cvae/.*", True), base))
    if not self.freeze_steps:
      return (last,)
    frozen = ((r"cvae/encoder/.*", False), (r"cvae/.*", True))
    first = Phase((*frozen, (r"base/.*", False)), self.freeze_steps)
    return first, last

  def init(self, key: jax.Array) -> Any:
    """Initial parameters in boxes, `{"base": ..., "cvae": ...}`."""
    base = transformer.init_boxed(self.model, key)
    own = cvae.init_boxed(self.cvae, base, jax.random.fold_in(key, 1))
    return {"base": base, "cvae": own}

  @property
  def reads_texts_first(self) -> int:
    """Training texts that `begin_with_texts` wants; 0 for none."""
    from ctrl_jax.tasks import cvae_init  # It imports this module.

    return cvae_init.num_texts(self)

  def begin_with_texts(self, params: Any, batches: Iterable[Batch]) -> Any:
    """Returns the parameters that the first update finds."""
    from ctrl_jax.tasks import cvae_init

    return cvae_init.begin(self, params, batches)

  def begin(self, params: Any) -> Any:
    """Where the parameters of a model to begin with go: two places."""
    encoder = cvae.encoder_of(self.cvae, params)
    return {"base": params, "cvae": {"encoder": encoder}}

  def distributions(
      self, params: Any, batch: Batch, dropout_key: jax.Array | None = None
  ) -> tuple[Gaussian, Gaussian]:
    """Posterior and prior of a batch's rows, float32 [B, Z] each.

    The encoder reads as many tokens as the decoder has positions; the end
    symbol of a text that fills the record is one more, and left out.

    Args:
      params: as `init` makes them.
      batch: see `loss`.
      dropout_key: None for no dropout.
    """
    ends = lengths(batch["weights"])
    tokens = batch["tokens"][:, : self.model.max_length]
    keys = (None, None)
    if dropout_key is not None:
      keys = jax.random.split(dropout_key)

    def encode(name, length, key):
      return cvae.encode(
          self.cvae, params["cvae"], params["base"], name, tokens,
          jnp.minimum(length, tokens.shape[1]), dropout_key=key,
      )

    posterior = encode("posterior", ends.whole, keys[0])
    if self.cvae.prior == "standard":
      return posterior, gaussian.standard_like(posterior)
    return posterior, encode("prior", ends.prompt, keys[1])

  def nll(
      self,
      params: Any,
      batch: Batch,
      z_BZ: jax.Array | None,
      dropout_key: jax.Array | None = None,
  ) -> tuple[jax.Array, jax.Array]:
    """-log p(y | x, z) of the targets, in nats.

    Args:
      params: as `init` makes them.
      batch: see `loss`.
      z_BZ: float32 latents; None for a model without one.
      dropout_key: None for no dropout.

    Returns:
      The sum over the batch, differentiable, and float32 [B], which is not.
    """
    base, own = params["base"], params["cvae"]
    keys = (None,) * 3
    if dropout_key is not None:
      keys = jax.random.split(dropout_key, 3)
    if z_BZ is None:
      size = self.cvae.source_length
      ids = batch["tokens"][:, :-1][:, :size]
      injection = cvae.read_source(
          self.cvae, own, base, ids,
          jnp.minimum(lengths(batch["weights"]).prompt, ids.shape[1]),
          dropout_key=keys[2],
      )
    else:
      injection = injections.inject(self.model, own, z_BZ)
    # A frozen decoder is in training what it is in decoding: no dropout.
    hidden_BTD = cvae.hidden_states(
        self.cvae, own, base, injection, batch["tokens"][:, :-1],
        dropout_key=keys[0] if self.train_base else None,
        auxiliary_key=keys[1],
    )
    total, rows = head_loss(
        self.model, base, (hidden_BTD,), batch, self.chunk_tokens,
        row_logits=injection.row_logits,
        trainable=loss.Trainable(
            (True,), (self.train_base,), bias=self.train_base
        ),
    )
    return total, rows["nll"]

  def sums(
      self, params: Any, batch: Batch, dropout_key: jax.Array
  ) -> kl_penalty.Sums:
    """What `loss` wants to know of the whole batch, of a part of it."""
    weight_B = batch["weights"][:, 1:].astype(jnp.float32).sum(1)
    if self.kl_cost.is_linear:
      return _sums(jnp.zeros((weight_B.size, 1)), weight_B)
    _, key, _ = jax.random.split(dropout_key, 3)
    kl_BZ = gaussian.kl(*self.distributions(params, batch, key))
    return _sums(kl_BZ, weight_B)

  def loss(
      self,
      params: Any,
      batch: Batch,
      dropout_key: jax.Array | None,
      step: jax.Array | None = None,
      sums: kl_penalty.Sums | None = None,
  ) -> tuple[jax.Array, dict[str, jax.Array]]:
    """What is minimised, summed over a batch.

    Args:
      params: as `init` makes them.
      batch: `tokens` int32 [B, T+1], control code, prompt, target, padding; and
        `weights` [B, T+1], which say where these are, see `lengths`.
      dropout_key: of dropout and of z; None in evaluation, where z is drawn
        from the posterior with one fixed key.
      step: for beta; None is beta=1.
      sums: of the batch that this one is a part of; None: it is no part.

    Returns:
      The sum, which over the targets' number is the loss; and [B] each, in nats
      a sequence, 0 without a target: `reconstruction`, `kl` (all of it, free
      or not), `nll` their sum, the negative ELBO, so that a perplexity from it
      is a bound; `weight`, the number of targets; in training `beta`; with a
      weight for it `bag_of_words`. Without a latent `nll` and `weight`, and
      `source_cut`, 1 for a prompt longer than what is read of it.
    """
    if not self.cvae.has_latent:
      return self._without_latent(params, batch, dropout_key)
    z_key = jax.random.key(0)
    encoder_key = decoder_key = None
    if dropout_key is not None:
      z_key, encoder_key, decoder_key = jax.random.split(dropout_key, 3)
    posterior, prior = self.distributions(params, batch, encoder_key)
    z_BZ = gaussian.sample(posterior, z_key)
    total, nll_B = self.nll(params, batch, z_BZ, decoder_key)
    weight_B = batch["weights"][:, 1:].astype(jnp.float32).sum(1)
    real_B = (weight_B > 0).astype(jnp.float32)
    kl_BZ = gaussian.kl(posterior, prior)
    beta = jnp.float32(1.0) if step is None else self.schedule(step)
    total = total + beta * self.kl_cost(_sums(kl_BZ, weight_B), sums)
    kl_B = kl_BZ.sum(1) * real_B
    rows = {
        "nll": nll_B + kl_B, "weight": weight_B, "reconstruction": nll_B,
        "kl": kl_B,
    }
    if self.bag_of_words:
      rows["bag_of_words"] = bag_of_words.nll(
          self.model, params["cvae"]["bag_of_words"], z_BZ,
          batch["tokens"][:, 1:],
          batch["weights"][:, 1:].astype(jnp.float32),
          self.word_smoothing,
      )
      total = total + self.bag_of_words * rows["bag_of_words"].sum()
    return total, rows if step is None else rows | {"beta": beta * real_B}

  def _without_latent(self, params, batch, dropout_key):
    total, nll_B = self.nll(params, batch, None, dropout_key)
    weight_B = batch["weights"][:, 1:].astype(jnp.float32).sum(1)
    cut_B = lengths(batch["weights"]).prompt > self.cvae.source_length
    return total, {
        "nll": nll_B, "weight": weight_B,
        "source_cut": cut_B.astype(jnp.float32),
    }

  def flops_per_token(self, length: int) -> float:
    """Training FLOPs a token, frozen or not; see `LanguageModelTask`."""
    of = lambda model, n: LanguageModelTask(model).flops_per_token(n)
    # Attention to both sides is causal attention to twice the length.
    encoder = of(
        dataclasses.replace(
            self.model, num_layers=self.cvae.num_layers, vocab_size=1
        ),
        2 * length,
    )
    passes = {"standard": 1, "learned": 2}.get(self.cvae.prior)
    if passes is None:
      passes = self.cvae.source_length / length
    found = of(self.model, length) + passes * encoder
    if self.cvae.auxiliary is not None:
      found += auxiliary_tuning.own_flops(self.cvae.auxiliary, length)
    return found


def _sums(kl_BZ, weight_B):
  real_B = (weight_B > 0).astype(jnp.float32)
  return kl_penalty.Sums(
      (kl_BZ * real_B[:, None]).sum(0), real_B.sum(), weight_B.sum()
  )
