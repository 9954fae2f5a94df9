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
  words/{kernel [V, Z], weight [V]}  see `models/word_heads.py`
  input/kernel [Z, D]
  pseudo_self_attention/projection/kernel [L, Z, D], or [1, Z, D]: shared
  pseudo_self_attention/{key, value}/{kernel [L, D, G*K], bias [L, G*K]}
  softmax/{kernel [Z, V], bias [V]}
  memory/kernel [L, Z, G*K]
  bag_of_words/{kernel [Z, V], bias [V], frequency [V]}  in training alone
  auxiliary/...                    see `models/auxiliary.py`
  encoder_sequence/{key, value}/...  as pseudo_self_attention's; then there is
                                   no latent, so neither pooling nor heads
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ctrl_jax.models import (
    bag_of_words,
    gaussian,
    injections,
    pooling,
    stack,
    transformer,
    word_heads,
)
from ctrl_jax.models.block import dropout
from ctrl_jax.models.cvae_config import CVAEConfig
from ctrl_jax.models.gaussian import Gaussian
from ctrl_jax.models.injections import Injection

Params = transformer.Params


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
  # Arrays of their own, also where the slice is the whole.
  tree = {"encoder": jax.tree.map(jnp.copy, encoder_of(config, base_boxed))}
  if not config.has_latent:
    tree["encoder_sequence"] = injections.key_and_value(base, keys)
    return tree
  query = injections.normal(next(keys), ("embed",), width)
  tree["pooling"] = {"query": query}
  tree["posterior"] = _heads(keys, width, latent)
  if config.prior == "learned":
    tree["prior"] = _heads(keys, width, latent)
  if config.auxiliary is not None:
    tree["auxiliary"] = config.auxiliary.init_boxed(next(keys))
  if config.predicts_words:
    word_key = jax.random.fold_in(key, 1)
    tree["bag_of_words"] = bag_of_words.init_boxed(base, latent, word_key)
  if config.reads_words:
    tree["words"] = word_heads.init_boxed(base, latent)
  return tree | injections.init_boxed(
      base, config.injections, latent, keys, config.shared_projection
  )


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


def encoded(
    config: CVAEConfig,
    params: Params,
    base_params: Params,
    ids_BT: jax.Array,
    length_B: jax.Array,
    *,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
  """What the encoder makes of texts: a vector a token, [B, T, D].

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
  x_BTD, _ = stack.apply(
      base, params["encoder"]["layers"], x_BTD, real[:, None, None],
      dropout_key=stack_key,
  )
  return transformer.final_norm(base, params["encoder"], x_BTD)


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
    config: see `encoded`, like the rest.
    params: the CVAE's.
    base_params: the decoder's.
    ids_BT: int32 ids.
    length_B: int32, real tokens of each row.
    dropout_key: None for no dropout.
  """
  x_BTD = encoded(
      config, params, base_params, ids_BT, length_B, dropout_key=dropout_key
  )
  return pooling.pool(
      config.pooling, params["pooling"]["query"], x_BTD, length_B,
      config.base.num_heads,
  )


def read_source(
    config: CVAEConfig,
    params: Params,
    base_params: Params,
    ids_BM: jax.Array,
    length_B: jax.Array,
    *,
    dropout_key: jax.Array | None = None,
) -> Injection:
  """What a model without a latent gives to its decoder: keys of the prompt.

  Pseudo self-attention (Ziegler et al. 2019, equation 6): every query sees a
  key and a value a token of the encoder's, projected for each layer. Here the
  encoder begins as the decoder's first layers, theirs at random; and the
  decoder reads the prompt, too, as those it is compared with do.

  Args:
    config: see `encoded`, like the rest.
    params: the CVAE's.
    base_params: the decoder's.
    ids_BM: int32 ids of prompts, with their control codes.
    length_B: int32, real tokens of each row.
    dropout_key: None for no dropout.
  """
  x_BMD = encoded(
      config, params, base_params, ids_BM, length_B, dropout_key=dropout_key
  )
  return Injection(
      extra_kv=injections.project(
          config.base, params["encoder_sequence"], x_BMD[None]
      ),
      extra_mask=jnp.arange(ids_BM.shape[1])[None] < length_B[:, None],
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
  if config.scale_head == "log_sigma":
    raw = 2 * raw
  return Gaussian(
      linear(heads["mean"]), gaussian.bound(raw, config.log_variance_bound)
  )


def encode(
    config: CVAEConfig,
    params: Params,
    base_params: Params,
    name: str,
    ids_BT: jax.Array,
    length_B: jax.Array,
    *,
    dropout_key: jax.Array | None = None,
) -> Gaussian:
  """The Gaussian, [B, Z] each, that texts have under the heads `name`.

  Args:
    config: see `encoded`, like the rest.
    params: the CVAE's.
    base_params: the decoder's.
    name: "prior" or "posterior".
    ids_BT: int32 ids.
    length_B: int32, real tokens of each row.
    dropout_key: None for no dropout.
  """
  pooled_BD = pooled(
      config, params, base_params, ids_BT, length_B, dropout_key=dropout_key
  )
  found = distribution(config, params, name, pooled_BD)
  if name == "prior" or not config.reads_words:
    return found
  more_BZ = word_heads.mean(params["words"], ids_BT, length_B)
  return found._replace(mean=found.mean + more_BZ)


def hidden_states(
    config: CVAEConfig,
    params: Params,
    base_params: Params,
    injection: Injection,
    ids_BT: jax.Array,
    *,
    dropout_key: jax.Array | None = None,
    auxiliary_key: jax.Array | None = None,
) -> jax.Array:
  """The decoder's hidden states under a latent, [B, T, D]: the head's input.

  `injection.row_logits` are not in them: they are added to the logits.

  Args:
    config: the CVAE's.
    params: the CVAE's.
    base_params: the decoder's.
    injection: what the latent gives.
    ids_BT: int32 ids.
    dropout_key: of the decoder; None for no dropout.
    auxiliary_key: of the auxiliary; None for no dropout.
  """
  own = config.auxiliary
  hidden_BTD, taps = transformer.hidden_states_with_taps(
      config.base, base_params, ids_BT, own.taps if own else (),
      dropout_key=dropout_key, input_BD=injection.input,
      extra_kv=injection.extra_kv, extra_mask=injection.extra_mask,
  )
  if own is None:
    return hidden_BTD
  output = own.output(
      params["auxiliary"], base_params, ids_BT, taps, injection.auxiliary,
      jnp.ones(ids_BT.shape[0], jnp.int32), dropout_key=auxiliary_key,
  )
  return hidden_BTD + own.shift(params["auxiliary"], hidden_BTD, output.hidden)


def logits(
    config: CVAEConfig,
    params: Params,
    base_params: Params,
    ids_BT: jax.Array,
    z_BZ: jax.Array,
) -> jax.Array:
  """Logits, float32 [B, T, vocab_size], of texts under latents."""
  injection = injections.inject(config.base, params, z_BZ)
  hidden = hidden_states(config, params, base_params, injection, ids_BT)
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
