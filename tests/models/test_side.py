"""The side network: its formula, its causality, its sizes."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from side_configs import BASE, SAME, SIDES

from ctrl_jax import errors
from ctrl_jax.models import side, transformer
from ctrl_jax.models.side import SideConfig


def test_the_formula_by_hand():
  """R = sigmoid(a) B + (1 - sigmoid(a)) S, to the numbers."""
  config = SIDES["random"]
  b, s = jnp.array([[1.0, -2.0]]), jnp.array([[3.0, 6.0]])
  found = lambda a: np.asarray(b + side.shift(config, {"a": a}, b, s))
  np.testing.assert_allclose(found(jnp.float32(0.0)), [[2.0, 2.0]])
  a = jnp.log(3.0)  # sigmoid: 3/4.
  np.testing.assert_allclose(found(a), [[1.5, 0.0]], atol=1e-6)
  total = b + side.shift(SIDES["sum"], {}, b, s)
  np.testing.assert_allclose(total, [[4.0, 4.0]])


@pytest.mark.parametrize("name", ["first layers", "narrow"])
def test_causal_by_gradient(name):
  config = SIDES[name]
  base = transformer.init(BASE, jax.random.key(0))
  own = nn.unbox(config.init_boxed(jax.random.key(1)))
  # All different: a token that comes twice would bring its gradient twice.
  ids = jnp.arange(3, 11, dtype=jnp.int32)[None]

  @jax.jit
  def states(rows):
    table = base["embedding"]["table"].at[ids[0]].set(rows)
    changed = dict(base, embedding={"table": table})
    return side.hidden_states(config, own, changed, ids)[0, :, 0]

  rows = base["embedding"]["table"][ids[0]]
  jacobian = np.abs(np.asarray(jax.jacrev(states)(rows))).sum(-1)
  assert not np.triu(jacobian, 1).any()
  assert (jacobian[np.tril_indices(8)] > 0).all()


@pytest.mark.parametrize("fields, message", [
    (dict(merge="mean"), "side.merge='mean'"),
    (dict(init="base"), "side.init='base'"),
    (dict(d_model=8), "side.d_model=8 is not the frozen model's 16"),
    (dict(num_layers=3), "side.num_layers=3 is more"),
    (dict(init="random", num_heads=3), "side.num_heads=3"),
    (dict(dropout=1.0), "side.dropout"),
])
def test_bad_configurations(fields, message):
  with pytest.raises(errors.UserError, match=message):
    SideConfig(BASE, **SAME | fields)
