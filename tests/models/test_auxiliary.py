import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.models import auxiliary, masks, stack, transformer
from ctrl_jax.models.config import TransformerConfig

BASE = TransformerConfig(
    vocab_size=31, d_model=16, d_ff=32, num_layers=3, num_heads=2, max_length=8,
    dtype="float32",
)
GPT2 = dataclasses.replace(
    BASE, positions="learned", activation="gelu_tanh", head_bias=False,
    scale_embedding=False,
)
SIZES = dict(
    attribute_length=3, d_model=8, d_ff=16, num_layers=2, num_heads=2,
    reused_layers=2,
)
CONFIGS = [
    auxiliary.AuxiliaryConfig(BASE, "feature", **SIZES),
    auxiliary.AuxiliaryConfig(BASE, "independent", **SIZES),
    auxiliary.AuxiliaryConfig(GPT2, "feature", "gate", **SIZES),
    auxiliary.AuxiliaryConfig(
        dataclasses.replace(BASE, scan_layers=True), "feature", **SIZES
    ),
]
IDS = jnp.array([[4, 8, 15, 16, 23, 2], [3, 1, 4, 1, 5, 9]])
ATTRIBUTE = jnp.array([[7, 9, 11], [7, 9, 11]])


def name(config):
  return f"{config.kind}-{config.combination}-{config.base.positions}"


def trees(config, seed=0):
  """Parameters of both, the auxiliary's moved away from its zero output."""
  base = transformer.init(config.base, jax.random.key(seed))
  params = nn.unbox(config.init_boxed(jax.random.key(1)))
  keys = iter(jax.random.split(jax.random.key(2), 100))
  moved = jax.tree.map(
      lambda x: x + 0.3 * jax.random.normal(next(keys), x.shape), params
  )
  return base, params, moved


def total(config, base, params, ids, attribute, lengths):
  """What goes through tables, of everything: [B, T, D (+ E)]."""
  hidden, taps = transformer.hidden_states_with_taps(
      config.base, base, ids, config.taps
  )
  output = config.output(params, base, ids, taps, attribute, lengths)
  if output.table is None:
    return hidden + config.shift(params, hidden, output.hidden)
  return jnp.concatenate([hidden, output.hidden], -1)


@pytest.mark.parametrize("config", CONFIGS, ids=name)
def test_at_first_it_adds_nothing(config):
  base, params, _ = trees(config)
  hidden = transformer.hidden_states(config.base, base, IDS)
  found = total(config, base, params, IDS, ATTRIBUTE, jnp.array([3, 2]))
  np.testing.assert_array_equal(found[..., :16], hidden)
  assert not found[..., 16:].any()


@pytest.mark.parametrize("states", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("latent", [0, 6])
def test_marks_are_as_large_as_what_they_mark(states, latent):
  """However large the states are that a frozen model gives at some depth."""
  config = dataclasses.replace(
      CONFIGS[0], d_model=64, reused_layers=0,
      **dict(latent_size=latent, attribute_length=1) if latent else {},
  )
  base, params, _ = trees(config)
  base["embedding"]["table"] *= states / 4
  taps = (states * jax.random.normal(jax.random.key(5), (2, 6, 16)),)
  places = jnp.arange(6)[None]
  text = auxiliary.text_inputs(config, params, IDS, places, taps)
  attribute = auxiliary.attribute_inputs(
      config, params, base,
      jax.random.normal(jax.random.key(6), (2, 6)) if latent else ATTRIBUTE,
  )
  for x, mark in ((text, "text"), (attribute, "attribute")):
    mark = params["segments"][mark]
    assert 0.4 < (x - mark[None, None]).std() / mark.std() < 2.5


@pytest.mark.parametrize("config", CONFIGS, ids=name)
def test_who_sees_whom(config):
  """Text: its own past and all of its row's attribute, by gradients."""
  base, _, params = trees(config)
  x_text = jax.random.normal(jax.random.key(3), (2, 6, 8))
  x_attribute = jax.random.normal(jax.random.key(4), (2, 3, 8))
  lengths = jnp.array([2, 0])
  mask = auxiliary.attention_mask(lengths, 3, masks.causal_mask(6))

  def run(x_attribute, x_text):
    x = jnp.concatenate([x_attribute, x_text], 1)
    return stack.apply(config.transformer, params["layers"], x, mask)[0]

  def reach(row, position):
    f = lambda *x: run(*x)[row, position].sum()
    return [
        np.abs(g).sum(-1) > 0
        for g in jax.grad(f, (0, 1))(x_attribute, x_text)
    ]

  attribute, text = reach(0, 3 + 2)  # The text's third token.
  np.testing.assert_array_equal(attribute, [[1, 1, 0], [0, 0, 0]])
  np.testing.assert_array_equal(text, [[1, 1, 1, 0, 0, 0], [0] * 6])
  attribute, text = reach(1, 3 + 5)  # A row without an attribute.
  np.testing.assert_array_equal(attribute, [[0] * 3] * 2)
  np.testing.assert_array_equal(text, [[0] * 6, [1] * 6])
  attribute, text = reach(0, 0)  # The attribute sees all of itself, no text.
  np.testing.assert_array_equal(attribute, [[1, 1, 0], [0, 0, 0]])
  assert not text.any()


@pytest.mark.parametrize("config", CONFIGS, ids=name)
def test_attributes_of_different_lengths_in_one_batch(config):
  base, _, params = trees(config)
  lengths = jnp.array([3, 1])
  both = total(config, base, params, IDS, ATTRIBUTE, lengths)
  for row in range(2):
    length = int(lengths[row])
    alone = total(
        config, base, params, IDS[row:row + 1],
        ATTRIBUTE[row:row + 1, :length], lengths[row:row + 1],
    )
    np.testing.assert_allclose(both[row], alone[0], atol=2e-5)
  # What stands in the padding does not matter, what stands before it does.
  padded = total(config, base, params, IDS, ATTRIBUTE.at[1, 1:].set(0), lengths)
  np.testing.assert_array_equal(both, padded)
  other = total(config, base, params, IDS, ATTRIBUTE.at[1, 0].set(0), lengths)
  assert np.abs(both[1] - other[1]).max() > 1e-3


@pytest.mark.parametrize("config", CONFIGS[:2], ids=name)
def test_both_positions_begin_at_zero(config):
  """The same tokens as attribute and as text enter the stack alike but for Z.
  """
  base, _, params = trees(config)
  ids = IDS[:, :3]
  _, taps = transformer.hidden_states_with_taps(
      config.base, base, ids, config.taps
  )
  text = auxiliary.text_inputs(config, params, ids, jnp.arange(3)[None], taps)
  attribute = auxiliary.attribute_inputs(config, params, base, ids)
  z = params["segments"]
  np.testing.assert_allclose(
      attribute - text,
      jnp.broadcast_to(z["attribute"] - z["text"], text.shape), atol=2e-5,
  )


def test_taps_are_the_states_behind_so_many_blocks():
  for scan in (False, True):
    config = dataclasses.replace(BASE, scan_layers=scan)
    base = transformer.init(config, jax.random.key(0))
    x = transformer.embed(config, base, IDS, jnp.arange(6)[None])
    end, _, taps = stack.apply_with_taps(
        config, base["layers"], x, None, (0, 1, 3)
    )
    np.testing.assert_array_equal(taps[0], x)
    one = stack.first(base["layers"], 1)
    np.testing.assert_allclose(
        taps[1], stack.apply(config, one, x, None)[0], atol=1e-6
    )
    np.testing.assert_array_equal(taps[2], end)


@pytest.mark.parametrize("fields, message", [
    (dict(kind="other"), "auxiliary.kind='other'"),
    (dict(combination="product"), "auxiliary.combination='product'"),
    (dict(attribute_length=0), "at least 1"),
    (dict(attribute_length=9), "8 positions"),
    (dict(reused_layers=4), "0 to 3"),
    (dict(kind="independent", combination="gate"), "kind='feature'"),
    (dict(d_model=9), "auxiliary.d_model=9"),
    (dict(dropout=1.0), "auxiliary.dropout"),
])
def test_bad_configurations(fields, message):
  with pytest.raises(errors.UserError, match=message):
    auxiliary.AuxiliaryConfig(BASE, **SIZES | fields)
