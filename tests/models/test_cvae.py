import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax.models import cvae, transformer
from ctrl_jax.models import injections as injections_lib
from ctrl_jax.models.auxiliary import AuxiliaryConfig
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae_config import CVAEConfig

CTRL = TransformerConfig(
    vocab_size=29, d_model=16, d_ff=32, num_layers=3, num_heads=2,
    max_length=10, dropout=0.5, dtype="float32", vocab_multiple=8,
)
GPT2 = dataclasses.replace(
    CTRL, positions="learned", activation="gelu_tanh", head_bias=False,
    scale_embedding=False, layer_norm_epsilon=1e-5, scan_layers=True,
)
LLAMA = dataclasses.replace(
    CTRL, positions="rotary", activation="swiglu", norm="rms", biases=False,
    head_bias=False, scale_embedding=False, num_kv_heads=1,
)
SETS = [
    *((name,) for name in injections_lib.NAMES), injections_lib.NAMES,
    ("auxiliary",),
]
IDS = jnp.asarray(np.random.default_rng(0).integers(0, 29, (3, 10)))
Z = jax.random.normal(jax.random.key(5), (3, 6))


def make(base=CTRL, injections=injections_lib.NAMES, **fields):
  """A configuration and its parameters, none at its neutral start."""
  if "auxiliary" in injections:
    fields["auxiliary"] = AuxiliaryConfig(
        base, attribute_length=1, reused_layers=1, d_model=8, d_ff=16,
        num_layers=1, num_heads=2, latent_size=6,
    )
  config = CVAEConfig(
      base, num_layers=2, latent_size=6, injections=injections, **fields
  )
  boxed = transformer.init_boxed(base, jax.random.key(0))
  both = {"base": boxed, "cvae": cvae.init_boxed(config, boxed,
                                                 jax.random.key(1))}
  params = nn.unbox(both)
  keys = iter(jax.random.split(jax.random.key(2), 200))
  params["cvae"] = jax.tree.map(
      lambda x: x + 0.2 * jax.random.normal(next(keys), x.shape), params["cvae"]
  )
  return config, params["base"], params["cvae"]


GPT2_SMALL = dataclasses.replace(
    GPT2, vocab_size=50257, d_model=768, d_ff=3072, num_layers=12, num_heads=12,
    max_length=1024,
)


@pytest.mark.parametrize("injections, shared, expected", [
    (("input",), False, 169_921_536),
    (("pseudo_self_attention",), False, 190_583_808),
    (("pseudo_self_attention",), True, 184_095_744),
    (("softmax",), False, 207_979_345),
    (("pseudo_self_attention", "input"), False, 191_173_632),
    # Optimus': two projections of z, without bias.
    (("input", "memory"), False, 169_331_712 + 768 * 768 * 13),
])
def test_the_authors_numbers_of_parameters(injections, shared, expected):
  config = CVAEConfig(
      GPT2_SMALL, num_layers=6, latent_size=768, pooling="gelu",
      injections=injections, shared_projection=shared,
  )
  assert cvae.num_parameters(config) == expected


@pytest.mark.parametrize("base", [CTRL, GPT2, LLAMA])
def test_the_encoder_is_a_copy_of_the_first_layers(base):
  config = CVAEConfig(base, num_layers=3, latent_size=6, injections=["softmax"])
  boxed = transformer.init_boxed(base, jax.random.key(0))
  tree = cvae.init_boxed(config, boxed, jax.random.key(1))
  is_box = lambda x: isinstance(x, nn.LogicallyPartitioned)
  for box in jax.tree.leaves(tree, is_leaf=is_box):
    assert is_box(box) and len(box.names) == box.value.ndim
  own = nn.unbox(tree)["encoder"]["layers"]["up"]["kernel"]
  theirs = nn.unbox(boxed)["layers"]["up"]["kernel"]
  np.testing.assert_array_equal(own, theirs)
  assert own is not theirs  # Separate from then on.


@pytest.mark.parametrize("injections", SETS)
def test_the_gradient_reaches_the_latent_and_the_latent_every_position(
    injections
):
  config, base, params = make(injections=injections)
  logits = lambda z: cvae.logits(config, params, base, IDS, z)
  weights = jax.random.normal(jax.random.key(3), (3, 10, 29))
  gradient = jax.grad(lambda z: (logits(z) * weights).sum())(Z)
  assert (np.abs(gradient) > 1e-6).all()
  moved = np.abs(logits(Z) - logits(Z[::-1]))[0].max(-1)
  assert (moved > 1e-4).all()  # The first position, too.


@pytest.mark.parametrize("base", [CTRL, GPT2, LLAMA])
def test_causal_under_a_latent(base):
  config, params_of_base, params = make(base)
  changed = IDS.at[:, 6:].set(1)
  one = cvae.logits(config, params, params_of_base, IDS, Z)
  two = cvae.logits(config, params, params_of_base, changed, Z)
  np.testing.assert_array_equal(one[:, :6], two[:, :6])
  assert (one[:, 6:] != two[:, 6:]).any()


def test_without_a_latent_nothing_is_injected():
  config, base, params = make()
  zero = jax.tree.map(jnp.zeros_like, params)
  found = cvae.hidden_states(
      config, params, base, injections_lib.Injection(), IDS
  )
  np.testing.assert_array_equal(
      found, transformer.hidden_states(CTRL, base, IDS)
  )
  # A key of zeros takes its share of attention; the others add nothing.
  config = dataclasses.replace(config, injections=("input", "softmax"))
  del zero["pseudo_self_attention"], zero["memory"]
  np.testing.assert_array_equal(
      cvae.logits(config, zero, base, IDS, Z),
      transformer.head(CTRL, base, found),
  )


@pytest.mark.parametrize("pooling", ["attention", "gelu"])
@pytest.mark.parametrize("base", [CTRL, GPT2, LLAMA])
def test_the_encoder_sees_both_ways_and_no_padding(base, pooling):
  config, params_of_base, params = make(base, pooling=pooling)

  def encode(ids, lengths):
    pooled = cvae.pooled(
        config, params, params_of_base, jnp.asarray(ids), jnp.asarray(lengths)
    )
    return pooled, cvae.distribution(config, params, "posterior", pooled)

  lengths = np.array([10, 4, 7])
  pooled, q = encode(IDS, lengths)
  assert q.mean.shape == q.log_variance.shape == (3, 6)
  assert q.log_variance.dtype == jnp.float32
  for row, n in enumerate(lengths):
    alone, _ = encode(IDS[row:row + 1, :n], [n])
    np.testing.assert_allclose(pooled[row], alone[0], atol=2e-5)
  # The first state depends on the last token.
  padded = np.array(IDS)
  padded[1, 4:] = 3
  np.testing.assert_array_equal(encode(padded, lengths)[0][1], pooled[1])
  padded[1, 3] = (padded[1, 3] + 1) % 29
  assert (encode(padded, lengths)[0][1] != pooled[1]).any()


def test_prior_and_posterior_share_all_but_their_heads():
  config, base, params = make()
  shapes = lambda tree: jax.tree.map(jnp.shape, tree)
  assert shapes(params["prior"]) == shapes(params["posterior"])
  standard, _, without = make(prior="standard")
  assert set(params) - set(without) == {"prior"}
  assert cvae.num_parameters(config) > cvae.num_parameters(standard)
  pooled = cvae.pooled(config, params, base, IDS, jnp.array([3, 5, 1]))
  p = cvae.distribution(config, params, "prior", pooled)
  q = cvae.distribution(config, params, "posterior", pooled)
  assert (p.mean != q.mean).all()


def test_heads_of_log_sigma_are_the_papers():
  """By hand, sigma = exp(W r + b); what is a log-variance stays bounded."""
  config, _, params = make(
      injections=("input",), scale_head="log_sigma"
  )
  pooled = 0.3 * jax.random.normal(jax.random.key(3), (3, 16))
  found = cvae.distribution(config, params, "prior", pooled)
  head = params["prior"]["log_variance"]
  sigma = np.exp(pooled @ head["kernel"] + head["bias"][None])
  np.testing.assert_allclose(
      jnp.exp(found.log_variance / 2), sigma, rtol=0.01
  )
  far = cvae.distribution(config, params, "prior", 1000 * pooled)
  assert np.abs(far.log_variance).max() <= 10


def test_an_auxiliary_begins_as_the_frozen_decoder():
  config, base, _ = make(injections=("auxiliary", "softmax"))
  boxed = transformer.init_boxed(CTRL, jax.random.key(0))
  fresh = nn.unbox(cvae.init_boxed(config, boxed, jax.random.key(1)))
  injection = injections_lib.inject(CTRL, fresh, Z)
  found = cvae.hidden_states(config, fresh, base, injection, IDS)
  np.testing.assert_array_equal(
      found, transformer.hidden_states(CTRL, base, IDS)
  )
  assert injection.row_logits is not None and injection.auxiliary is Z


LENGTHS = jnp.array([4, 1, 3])


def states_of_source(base, ids, source, lengths=LENGTHS):
  config, params_of_base, params = make(
      base, injections=("encoder_sequence",), prior="none", source_length=5
  )
  injection = cvae.read_source(
      config, params, params_of_base, source, lengths
  )
  return cvae.hidden_states(config, params, params_of_base, injection, ids)


@pytest.mark.parametrize("base", [CTRL, GPT2, LLAMA])
def test_a_prompts_encoding_reaches_every_position_and_padding_none(base):
  source = IDS[::-1, :5]
  found = states_of_source(base, IDS, source)
  padded = jnp.where(jnp.arange(5)[None] < LENGTHS[:, None], source, 7)
  np.testing.assert_array_equal(found, states_of_source(base, IDS, padded))
  for row, n in enumerate(LENGTHS):
    alone = states_of_source(
        base, IDS[row:row + 1], source[row:row + 1, :n], LENGTHS[row:row + 1]
    )
    np.testing.assert_allclose(found[row], alone[0], atol=2e-5)
  changed = source.at[:, 0].set((source[:, 0] + 1) % 29)
  other = states_of_source(base, IDS, changed)
  assert (np.abs(other - found).max(-1) > 1e-5).all()
  later = IDS.at[:, 6:].set(1)
  np.testing.assert_array_equal(
      states_of_source(base, later, source)[:, :6], found[:, :6]
  )


def test_without_a_latent_there_are_no_heads():
  config, _, params = make(
      injections=("encoder_sequence",), prior="none", source_length=5
  )
  assert set(params) == {"encoder", "encoder_sequence"}
  assert config.num_extra_keys == 5 and not config.has_latent
