import numpy as np
import pytest

from ctrl_jax import errors, latents
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
