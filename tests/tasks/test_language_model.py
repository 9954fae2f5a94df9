import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.tasks.language_model import LanguageModelTask

CONFIG = TransformerConfig(
    vocab_size=50, d_model=16, d_ff=32, num_layers=2, num_heads=4, max_length=8,
    dtype="float32",
)
LLAMA = dataclasses.replace(
    CONFIG, positions="rotary", activation="swiglu", norm="rms", num_kv_heads=2,
    biases=False, head_bias=False, scale_embedding=False,
)
ALL = [CONFIG, LLAMA, dataclasses.replace(LLAMA, tied_head=False)]


@pytest.mark.parametrize("config", ALL, ids=["ctrl", "llama", "untied"])
def test_rows_sum_to_the_loss_and_equal_log_softmax(config):
  task = LanguageModelTask(config, chunk_tokens=5)
  params = transformer.init(config, jax.random.key(0))
  rng = np.random.default_rng(0)
  batch = {
      "tokens": jnp.asarray(rng.integers(0, 50, (3, 9)), jnp.int32),
      "weights": jnp.asarray(rng.integers(0, 2, (3, 9)), jnp.uint8),
  }
  total, rows = task.loss(params, batch, None)
  logits = transformer.Transformer(config).apply(
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


def test_flops_of_a_llama_count_its_weights():
  params = jax.eval_shape(lambda k: transformer.init(LLAMA, k),
                          jax.random.key(0))
  kernels = sum(
      x.size for path, x in jax.tree_util.tree_leaves_with_path(params)
      if "kernel" in str(path) or "table" in str(path)
  )
  attention = LLAMA.num_layers * 8 * LLAMA.d_model
  found = LanguageModelTask(LLAMA).flops_per_token(8)
  assert found == 6 * (kernels + attention)
