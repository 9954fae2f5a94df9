"""Adagrad whose sums of squares are kept as sums over rows and columns.

Adagrad (Duchi et al. 2011) divides a gradient by the square root of the sum s
of all squares so far, which takes as much memory as the parameters. Adafactor
(Shazeer and Stern 2018, arXiv 1804.04235, algorithm 1) keeps of a matrix of
squares its rows' means r and its columns' means c, and takes r_i c_j / mean(r)
for the element: of [n, m] there are n + m numbers. Here Adagrad's sum is kept
in that way, so that the step sizes, the schedule and the sum's initial value
mean what they do in Adagrad.
"""

import jax
import jax.numpy as jnp
import optax


def factored_adagrad(
    learning_rate: optax.ScalarOrSchedule,
    initial_accumulator_value: float = 0.1,
    min_dim_size_to_factor: int = 128,
) -> optax.GradientTransformation:
  """Returns the transformation; its state holds the sums' means, float32.

  With t updates made, m = (s_0 + g_1^2 + ... + g_t^2) / (t + 1) is a running
  mean, which Adafactor's rule keeps: m_t = (1 - 1/(t+1)) m_{t-1} + 1/(t+1)
  g_t^2. The update -lr g_t / sqrt(s_t) is then -lr g_t / sqrt(m_t) / sqrt(t+1).

  Args:
    learning_rate: a number, or a schedule of the updates made.
    initial_accumulator_value: s_0.
    min_dim_size_to_factor: an array whose second largest dimension is smaller
      keeps all of its sums, as Adagrad does. Stacked matrices [L, n, m] are
      factored one by one, where L is the smallest dimension.
  """
  factored = optax.scale_by_factored_rms(
      min_dim_size_to_factor=min_dim_size_to_factor,
      decay_rate_fn=lambda count, _: 1 - 1 / (count + 2),
  )

  def init(params):
    state = factored.init(params)
    means = {
        name: jax.tree.map(
            lambda x: jnp.full_like(x, initial_accumulator_value),
            getattr(state, name),
        )
        for name in ("v_row", "v_col", "v")
    }
    return state._replace(**means)

  return optax.chain(
      optax.GradientTransformation(init, factored.update),
      optax.scale_by_schedule(lambda count: (count + 2) ** -0.5),
      optax.scale_by_learning_rate(learning_rate),
  )
