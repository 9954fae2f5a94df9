"""A side network as a term of decoding: cached, without an attribute."""

from typing import Any

import flax.struct
import jax.numpy as jnp

from ctrl_jax.decoding import terms
from ctrl_jax.decoding.terms import Reading, TermState
from ctrl_jax.models import side, stack
from ctrl_jax.models.side import SideConfig


@flax.struct.dataclass
class SideTerm:
  """A side network beside its frozen model; the methods are `terms.Term`'s.

  Attributes:
    params: the side's, laid out by `prepare`.
    config: what it is.
  """

  params: Any
  config: SideConfig = flax.struct.field(pytree_node=False)

  def start(self, attribute, attribute_length, weight, slots) -> TermState:
    """The state before anything is read, for a text of `slots` slots."""
    own = self.config.transformer
    cache = terms.empty_cache(own, attribute.shape[0], slots)
    return TermState(
        cache, jnp.zeros(()), attribute, attribute_length, weight
    )

  def prefill(
      self, base_params: Any, state: TermState, reading: Reading
  ) -> TermState:
    """Reads a prompt."""
    return self._run(base_params, state, reading)

  def read(
      self, base_params: Any, state: TermState, reading: Reading
  ) -> TermState:
    """Reads one token a row."""
    return self._run(base_params, state, reading)

  def _run(self, base_params, state, reading):
    positions = jnp.broadcast_to(reading.positions, reading.ids.shape)
    x = side.inputs(
        self.config, self.params, base_params, reading.ids, positions
    )
    x, cache = stack.apply(
        self.config.transformer, self.params["layers"], x, reading.mask,
        cache=state.cache, index=jnp.asarray(reading.index, jnp.int32),
        positions=positions,
    )
    output = side.project(self.config, self.params, x[:, -1])
    return state._replace(cache=cache, output=output)


def prepare(config: SideConfig, params: Any) -> SideTerm:
  """Lays a side network out for decoding; call it once, outside jit."""
  layers = terms.lay_out(config.transformer, params["layers"])
  return SideTerm(dict(params, layers=layers), config)
