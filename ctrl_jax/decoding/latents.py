"""A latent in the compiled part of generation.

What it adds to each token and to the logits rides along in the session; its
keys and values lie in the cache's first slots, written when the prompt is read
and counted in no position. Letters as in `models/transformer.py`; M extra keys.
"""

from typing import Any

import flax.struct
import jax

from ctrl_jax.models import cvae, injections, masks, transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae_config import CVAEConfig
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

  Args:
    config: the decoder's.
    params: the decoder's, as `steps.prepare` makes them.
    z_BZ: float32; of a model without a latent, int32 [B, 1 + M], how long each
      row's prompt is and its ids. None: nothing is injected.

  Returns:
    Without the vocabulary's padding.
  """
  if z_BZ is None:
    return None
  own = params["latent"]
  if not own.config.has_latent:
    return cvae.read_source(
        own.config, own.params, params, z_BZ[:, 1:], z_BZ[:, 0]
    )
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


def with_extra(
    mask: jax.Array, extra: int, injection: Injection | None
) -> jax.Array:
  """Adds `extra` keys in front, which padding's queries see, too."""
  if not extra:
    return mask
  return masks.mask_with_extra(mask, extra, injection.extra_mask)
