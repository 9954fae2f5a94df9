import jax
import jax.numpy as jnp
import numpy as np
from scipy import integrate, stats

from ctrl_jax.models import gaussian
from ctrl_jax.models.gaussian import Gaussian


def of(mean, log_variance):
  return Gaussian(jnp.asarray(mean, jnp.float32),
                  jnp.asarray(log_variance, jnp.float32))


def test_kl_equals_a_numerical_integral():
  q, p = of([[0.3, -1.0]], [[0.5, -2.0]]), of([[1.1, 0.2]], [[-0.7, 1.0]])
  found = gaussian.kl(q, p)[0]
  for d in range(2):
    a, b = (
        stats.norm(float(g.mean[0, d]), float(np.exp(g.log_variance[0, d] / 2)))
        for g in (q, p)
    )
    expected, _ = integrate.quad(
        lambda z, a=a, b=b: a.pdf(z) * (a.logpdf(z) - b.logpdf(z)), -12, 12
    )
    np.testing.assert_allclose(found[d], expected, rtol=1e-4)
  np.testing.assert_array_equal(gaussian.kl(p, p), np.zeros((1, 2)))


def test_kl_of_near_equals_is_not_lost_in_rounding():
  q = of([[0.0]], [[1e-3]])
  np.testing.assert_allclose(
      gaussian.kl(q, gaussian.standard_like(q)), [[2.5e-7]], rtol=1e-2
  )


def test_samples_have_the_mean_and_the_variance_and_carry_gradients():
  g = of(np.full((20000, 1), 2.0), np.full((20000, 1), np.log(0.25)))
  z = gaussian.sample(g, jax.random.key(0))
  assert abs(float(z.mean()) - 2) < 0.02 and abs(float(z.std()) - 0.5) < 0.02
  total = lambda g: gaussian.sample(g, jax.random.key(0)).sum()
  gradient = jax.grad(total)(g)
  np.testing.assert_array_equal(gradient.mean, np.ones((20000, 1)))
  np.testing.assert_allclose(
      gradient.log_variance, (z - 2) / 2, rtol=1e-3, atol=1e-5
  )


def test_density():
  g = of([0.3, -1.0], [0.5, -2.0])
  z = jnp.array([1.0, -1.2])
  expected = stats.norm.logpdf(
      np.array(z), np.array(g.mean), np.exp(np.array(g.log_variance) / 2)
  ).sum()
  np.testing.assert_allclose(gaussian.log_density(g, z), expected, rtol=1e-5)


def test_bound_is_the_identity_at_zero_and_never_flat_or_silent():
  raw = jnp.array([-1e4, -0.1, 0.0, 0.1, 30.0, jnp.nan], jnp.bfloat16)
  found = gaussian.bound(raw, 10.0)
  assert found.dtype == jnp.float32
  np.testing.assert_allclose(found[1:4], raw[1:4].astype(float), rtol=1e-3)
  assert abs(found[0]) <= 10 and abs(found[4]) < 10 and np.isnan(found[5])
  assert jax.grad(lambda x: gaussian.bound(x, 10.0))(30.0) > 0
