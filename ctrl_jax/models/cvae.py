"""The Transformer CVAE (arXiv 2101.00828): latents over a language model.

A latent z of a pair (prompt x, text y), beside a decoder p(y | x, z):

  prior      p(z | x)     or the standard normal one (a VAE)
  posterior  q(z | x, y)

Both are heads of one encoder: L1 unmasked blocks, copies of the decoder's first
at the start, over the decoder's token and position tables, and an
attention-average block (`models/pooling.py`). How z reaches the decoder stands
in `models/injections.py`.

The parameters, Z latent, N = L1, M extra keys, other letters as in
`models/transformer.py`:

  encoder/layers/... [N, ...], encoder/final_norm/... [D]
  pooling/query [D]
  posterior/{mean, log_variance}/{kernel [D, Z], bias [Z]}
  prior/...                        likewise; none with a standard prior
  input/kernel [Z, D]
  pseudo_self_attention/projection/kernel [L, Z, D]
  pseudo_self_attention/{key, value}/{kernel [L, D, G*K], bias [L, G*K]}
  softmax/{kernel [Z, V], bias [V]}
  memory/kernel [L, Z, G*K]
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ctrl_jax import errors
from ctrl_jax.models import gaussian, injections, pooling, transformer
from ctrl_jax.models.block import dropout
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.gaussian import Gaussian
from ctrl_jax.models.injections import Injection

PRIORS = ("learned", "standard")
INJECTIONS = injections.NAMES
Params = transformer.Params


@dataclasses.dataclass(frozen=True)
class CVAEConfig:
  """Sizes and variants of a CVAE; `config.default()` explains each.

  Raises:
    errors.UserError: an unknown choice, or sizes that do not fit the base.
  """

  base: TransformerConfig
  num_layers: int = 3
  latent_size: int = 64
  pooling: str = "attention"
  prior: str = "learned"
  injections: tuple[str, ...] = ("input",)
  log_variance_bound: float = 10.0

  def __post_init__(self):
    errors.check_choices("cvae", self, pooling=pooling.KINDS, prior=PRIORS)
    if isinstance(self.injections, str) or not self.injections:
      raise errors.UserError(
          f"cvae.injections={self.injections!r} must be a list of at least one"
          f" of {', '.join(map(repr, INJECTIONS))}."
      )
    for name in self.injections:
      if name not in INJECTIONS:
        raise errors.UserError(
            f"cvae.injections: {name!r} is unknown."
            f" {errors.nearest(str(name), INJECTIONS)}"
        )
    # One order and each once: equal sets are equal configurations.
    chosen = tuple(name for name in INJECTIONS if name in self.injections)
    object.__setattr__(self, "injections", chosen)
    if type(self.num_layers) is not int or not (
        1 <= self.num_layers <= self.base.num_layers
    ):
      raise errors.UserError(
          f"cvae.num_layers={self.num_layers!r} must be 1 to"
          f" {self.base.num_layers}, the decoder's layers."
      )
    if type(self.latent_size) is not int or self.latent_size < 1:
      raise errors.UserError(
          f"cvae.latent_size={self.latent_size!r} must be a whole number, at"
          " least 1."
      )
    if not 0 < self.log_variance_bound <= 80:  # exp(80) is a float32 yet.
      raise errors.UserError(
          f"cvae.log_variance_bound={self.log_variance_bound} must be above 0,"
          " and at most 80."
      )

  @property
  def num_extra_keys(self) -> int:
    """M: keys in front of every layer's own."""
    return injections.num_extra_keys(self.injections)


def init_boxed(config: CVAEConfig, base_boxed: Any, key: jax.Array) -> Params:
  """Initial parameters in boxes that name their logical axes.

  Args:
    config: the CVAE's.
    base_boxed: the decoder's, of which the encoder is a copy.
    key: of the new parameters.
  """
  keys = iter(jax.random.split(key, 16))
  base = config.base
  width, latent = base.d_model, config.latent_size
  tree = {
      # Arrays of their own, also where the slice is the whole.
      "encoder": jax.tree.map(jnp.copy, encoder_of(config, base_boxed)),
      "pooling": {"query": injections.normal(next(keys), ("embed",), width)},
      "posterior": _heads(keys, width, latent),
  }
  if config.prior == "learned":
    tree["prior"] = _heads(keys, width, latent)
  return tree | injections.init_boxed(base, config.injections, latent, keys)


def encoder_of(config: CVAEConfig, base_params: Params) -> Params:
  """The decoder's first layers and final norm, which the encoder begins as.

  The final norm is, as in the authors' code, the one behind the last layer.
  """
  return transformer.shallow(base_params, config.num_layers)


def _heads(keys, width: int, latent: int) -> Params:
  return {
      name: injections.linear(next(keys), ("embed", None), width, latent)
      for name in ("mean", "log_variance")
  }


def pooled(
    config: CVAEConfig,
    params: Params,
    base_params: Params,
    ids_BT: jax.Array,
    length_B: jax.Array,
    *,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
  """What the encoder makes of texts: one vector each, [B, D].

  Args:
    config: the CVAE's.
    params: the CVAE's.
    base_params: the decoder's; its tables are read.
    ids_BT: int32 ids, at most the decoder's `max_length` of them.
    length_B: int32, real tokens of each row; what is behind has no effect.
    dropout_key: None for no dropout.
  """
  base = config.base
  assert ids_BT.shape[1] <= base.max_length, ids_BT.shape
  embed_key = stack_key = None
  if dropout_key is not None:
    embed_key, stack_key = jax.random.split(dropout_key)
  positions = jnp.arange(ids_BT.shape[1])[None]
  x_BTD = transformer.embed(base, base_params, ids_BT, positions)
  x_BTD = dropout(x_BTD, base.dropout, embed_key)
  real = positions < length_B[:, None]
  x_BTD, _ = transformer.stack(
      base, params["encoder"]["layers"], x_BTD, real[:, None, None],
      dropout_key=stack_key,
  )
  x_BTD = transformer.final_norm(base, params["encoder"], x_BTD)
  return pooling.pool(
      config.pooling, params["pooling"]["query"], x_BTD, length_B,
      base.num_heads,
  )


def distribution(
    config: CVAEConfig, params: Params, name: str, pooled_BD: jax.Array
) -> Gaussian:
  """The Gaussian that the heads `name`, "prior" or "posterior", predict."""
  x = pooled_BD.astype(jnp.float32)

  def linear(p):
    return x @ p["kernel"] + p["bias"][None]

  heads = params[name]
  raw = linear(heads["log_variance"])
  return Gaussian(
      linear(heads["mean"]), gaussian.bound(raw, config.log_variance_bound)
  )


def hidden_states(
    config: CVAEConfig,
    base_params: Params,
    injection: Injection,
    ids_BT: jax.Array,
    *,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
  """The decoder's hidden states under a latent, [B, T, D]: the head's input.

  `injection.row_logits` are not in them: they are added to the logits.
  """
  return transformer.hidden_states_with_taps(
      config.base, base_params, ids_BT, (), dropout_key=dropout_key,
      input_BD=injection.input, extra_kv=injection.extra_kv,
  )[0]


def logits(
    config: CVAEConfig,
    params: Params,
    base_params: Params,
    ids_BT: jax.Array,
    z_BZ: jax.Array,
) -> jax.Array:
  """Logits, float32 [B, T, vocab_size], of texts under latents."""
  injection = injections.inject(config.base, params, z_BZ)
  hidden = hidden_states(config, base_params, injection, ids_BT)
  result = transformer.head(config.base, base_params, hidden)
  if injection.row_logits is None:
    return result
  return result + injection.row_logits[:, None, : config.base.vocab_size]


def num_parameters(config: CVAEConfig) -> int:
  """Counts base and CVAE without allocating any; padding is none."""
  base = dataclasses.replace(config.base, vocab_multiple=1)
  config = dataclasses.replace(config, base=base)

  def init(key):
    boxed = transformer.init_boxed(base, key)
    return boxed, init_boxed(config, boxed, key)

  abstract = jax.eval_shape(init, jax.random.key(0))
  return sum(x.size for x in jax.tree.leaves(abstract))
