import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.tasks.language_model import LanguageModelTask

CONFIG = TransformerConfig(
    vocab_size=50, d_model=16, d_ff=32, num_layers=2, num_heads=4, max_length=8,
    dtype="float32",
)


def test_rows_sum_to_the_loss_and_equal_log_softmax():
  task = LanguageModelTask(CONFIG, chunk_tokens=5)
  params = transformer.init(CONFIG, jax.random.key(0))
  rng = np.random.default_rng(0)
  batch = {
      "tokens": jnp.asarray(rng.integers(0, 50, (3, 9)), jnp.int32),
      "weights": jnp.asarray(rng.integers(0, 2, (3, 9)), jnp.uint8),
  }
  total, rows = task.loss(params, batch, None)
  logits = transformer.Transformer(CONFIG).apply(
      {"params": params}, batch["tokens"][:, :-1]
  )
  log_p = jax.nn.log_softmax(logits)
  nll = -jnp.take_along_axis(log_p, batch["tokens"][:, 1:, None], -1)[..., 0]
  weights = batch["weights"][:, 1:]
  np.testing.assert_allclose(rows["nll"], (nll * weights).sum(1), rtol=1e-5)
  np.testing.assert_array_equal(rows["weight"], weights.sum(1))
  np.testing.assert_allclose(total, rows["nll"].sum(), rtol=1e-6)


def test_first_token_is_never_a_target():
  task = LanguageModelTask(CONFIG)
  params = transformer.init(CONFIG, jax.random.key(0))
  tokens = jnp.ones((1, 9), jnp.int32)
  only_first = jnp.zeros((1, 9)).at[0, 0].set(1)
  batch = {"tokens": tokens, "weights": only_first}
  total, rows = task.loss(params, batch, None)
  assert total == 0 and rows["weight"][0] == 0


def test_flops_of_ctrl_are_those_worked_out_by_hand():
  """9.915 GFLOP a token at 256: 6 x matrix weights + causal attention."""
  task = LanguageModelTask(
      TransformerConfig(
          vocab_size=246_534, d_model=1280, d_ff=8192, num_layers=48,
          num_heads=16, max_length=256,
      )
  )
  np.testing.assert_allclose(task.flops_per_token(256), 9.915e9, rtol=1e-3)
