import dataclasses
import functools

import decoding_fakes
import flax.linen as nn
import jax
import numpy as np
import pytest

from ctrl_jax import errors, language_model, latents, saved_cvae, saved_head
from ctrl_jax.models import cvae, transformer
from ctrl_jax.models.cvae_config import CVAEConfig
from ctrl_jax.models.gaussian import Gaussian

PRIOR = Gaussian(
    np.array([[1.0, 2.0], [3.0, 4.0]], np.float32),
    np.zeros((2, 2), np.float32),
)


def call(latent, samples=1, seed=0, prior=PRIOR):
  encode = lambda items: Gaussian(
      np.array([[len(str(i)), 0.0] for i in items], np.float32), None
  )
  shape = (len(prior.mean), samples, 2)
  return latents.of_call(latent, shape, seed, lambda: prior, encode)


def test_samples_depend_on_seed_and_place_alone():
  found = call("prior", 3)
  assert found.shape == (2, 3, 2) and found.dtype == np.float32
  np.testing.assert_array_equal(call("prior", 2), found[:, :2])
  first = Gaussian(*(x[:1] for x in PRIOR))
  np.testing.assert_array_equal(call("prior", 3, prior=first), found[:1])
  assert (call("prior", 3, seed=1) != found).all()
  assert len({tuple(z) for z in found.reshape(-1, 2).tolist()}) == 6
  many = call("prior", 2000)
  np.testing.assert_allclose(many.mean(1), PRIOR.mean, atol=0.1)


def test_means_arrays_and_texts():
  np.testing.assert_array_equal(
      call("mean", 2), np.repeat(PRIOR.mean[:, None], 2, 1)
  )
  np.testing.assert_array_equal(call([[1, 2], [3, 4]]), call("mean"))
  np.testing.assert_array_equal(call(np.array([5, 6]))[:, 0], [[5, 6]] * 2)
  np.testing.assert_array_equal(call(["abc"])[:, 0], [[3, 0]] * 2)
  np.testing.assert_array_equal(call(["abc", "a"])[:, 0], [[3, 0], [1, 0]])
  pair = ("a", "b")
  np.testing.assert_array_equal(
      call([pair])[:, 0], [[len(str(pair)), 0]] * 2
  )


@pytest.mark.parametrize("latent, message", [
    ("posterior", "neither 'prior' nor 'mean'"),
    (np.zeros((2, 3)), r"\[2, 3\]: this model's are \[2, 2\]"),
    (np.zeros((3, 2)), "3 latents for 2 prompts"),
    (["a", "b", "c"], "3 latents for 2 prompts"),
    ([[1.0, float("nan")]] * 2, "not finite"),
    (dict(z=1), "must be 'prior', 'mean'"),
    ([["a", 1], ["b", 2]], "must be 'prior'|cannot"),
])
def test_bad_latents(latent, message):
  def call_with_real_encoder():
    return latents.of_call(
        latent, (2, 1, 2), 0, lambda: PRIOR,
        lambda items: Gaussian(
            np.array([[len(latents._parts(i, False)), 0] for i in items]), None
        ),
    )

  with pytest.raises(errors.UserError, match=message):
    call_with_real_encoder()


def test_interpolation():
  a, b = np.array([1.0, 0.0]), np.array([0.0, 3.0])
  line = latents.interpolate(a, b, 3)
  np.testing.assert_allclose(line, [[1, 0], [0.5, 1.5], [0, 3]])
  arc = latents.interpolate(a, b, 3, spherical=True)
  np.testing.assert_allclose(arc[[0, 2]], [a, b], atol=1e-6)
  np.testing.assert_allclose(arc[1], [2**0.5, 2**0.5], rtol=1e-6)
  np.testing.assert_allclose(
      latents.interpolate(a, 2 * a, 3, spherical=True)[:, 0], [1, 1.5, 2]
  )


def test_analogy():
  np.testing.assert_array_equal(latents.analogy([1, 0], [1, 2], [5, 5]), [5, 7])


@functools.cache
def model(window=8, own_window=None, prior="learned"):
  """A model of 24 positions that was trained on sequences of `window`."""
  base = dataclasses.replace(decoding_fakes.CONFIG, d_model=8, d_ff=8)
  config = CVAEConfig(base, num_layers=1, latent_size=2, prior=prior)
  boxed = transformer.init_boxed(base, jax.random.key(0))
  params = nn.unbox(cvae.init_boxed(config, boxed, jax.random.key(1)))
  made = language_model.LanguageModel(
      base, nn.unbox(boxed), tokenizer=decoding_fakes.Characters(),
      window=window,
  )
  made.set_cvae(saved_cvae.SavedCVAE(
      config, params, base_hash=saved_head.base_hash(base, nn.unbox(boxed)),
      window=own_window,
  ))
  return made


def test_the_encoder_reads_what_a_record_of_training_holds():
  made = model()
  of = lambda item: made.encode(item, "Books")[0]
  # Code, 2 characters of prompt and 6 of text: window and one more, as in a
  # record; what is behind has no effect, the end symbol included.
  first = of(("ab", "cdefgh"))
  np.testing.assert_array_equal(of(("ab", "cdefghijk")), first)
  assert (of(("ab", "cdefgX")) != first).any()
  assert (of(("ab", "cdefg")) != first).any()
  of("abcdefg")
  with pytest.raises(errors.UserError, match="has 9 .* more than the 8 that"):
    of("abcdefgh")
  # Without a position for the last target.
  np.testing.assert_array_equal(*(
      model(24).encode(("a" * 20, text))[0] for text in ("bcde", "bcdef")
  ))


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_pair_needs_a_text(text):
  with pytest.raises(errors.UserError, match="behind the prompt 'ab' is empty"):
    model().encode([("a", "b"), ("ab", text)])
  with pytest.raises(errors.UserError, match="text to encode is empty"):
    model(prior="standard").encode(text)


def test_latents_beside_a_decoder_have_a_window_of_their_own():
  made = model(24, own_window=8)
  np.testing.assert_array_equal(
      made.encode(("ab", "cdefghijk"), "Books")[0],
      model().encode(("ab", "cdefgh"), "Books")[0],
  )
  with pytest.raises(errors.UserError, match="more than the 8 that"):
    made.encode("abcdefgh", "Books")
