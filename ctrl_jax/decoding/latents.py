"""A latent in the compiled part of generation.

What it adds to each token and to the logits rides along in the session; its
keys and values lie in the cache's first slots, written when the prompt is read
and counted in no position. Letters as in `models/transformer.py`; M extra keys.
"""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from ctrl_jax.models import injections, transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae import CVAEConfig
from ctrl_jax.models.injections import Injection


@flax.struct.dataclass
class Latent:
  """A CVAE beside its decoder; lies under "latent" in the decoder's parameters.

  Attributes:
    params: the CVAE's.
    config: what it is.
  """

  params: Any
  config: CVAEConfig = flax.struct.field(pytree_node=False)


def inject(
    config: TransformerConfig, params: Any, z_BZ: jax.Array | None
) -> Injection | None:
  """What latents give to the decoder whose `params` hold a `Latent`.

  The vocabulary's padding is cut off. None without a latent.
  """
  if z_BZ is None:
    return None
  own = params["latent"]
  found = injections.inject(config, own.params, z_BZ)
  if found.row_logits is None:
    return found
  return found._replace(row_logits=found.row_logits[:, : config.vocab_size])


def num_extra_keys(params: Any) -> int:
  """Returns M, slots of the cache in front of the text's."""
  return params["latent"].config.num_extra_keys if "latent" in params else 0


def embed(
    config: TransformerConfig,
    params: Any,
    ids_BT: jax.Array,
    positions_BT: jax.Array,
    injection: Injection | None,
) -> jax.Array:
  """`transformer.embed`, and what a latent adds to every token."""
  x_BTD = transformer.embed(config, params, ids_BT, positions_BT)
  if injection is None or injection.input is None:
    return x_BTD
  return x_BTD + injection.input.astype(x_BTD.dtype)[:, None]


def seen_by_all(mask: jax.Array, extra: int) -> jax.Array:
  """Adds `extra` keys in front that every query sees, padding's too."""
  if not extra:
    return mask
  return jnp.pad(mask, [(0, 0)] * 3 + [(extra, 0)], constant_values=True)
