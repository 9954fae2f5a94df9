"""The demo: a small CTRL on the documentation of installed Python packages.

  python -m ctrl_jax.prepare --config=configs/demo.py
  python -m ctrl_jax.train --config=configs/demo.py --workdir=runs/demo

Needs nothing but what `pip install` brought. See README for hardware, time and
the numbers it reaches.
"""

from ctrl_jax import config

PACKAGES = (
    "scipy", "stdlib", "jax", "numpy", "sklearn", "matplotlib",
    "tensorflow_datasets", "orbax", "flax", "optax",
)


def get_config():
  c = config.default()
  c.data.folder = "data/demo"
  c.data.sources = tuple(
      # The qualified name stands where CTRL's Links have the URL.
      config.source("docs", code, path=code, template="{name}\n{text}")
      for code in PACKAGES
  )
  c.data.sequence_length = 128
  c.data.validation_fraction = 0.03
  c.data.test_fraction = 0.1
  c.tokenizer.vocab_size = 4096

  c.model.d_model = 128
  c.model.d_ff = 512
  c.model.num_layers = 3
  c.model.num_heads = 4
  c.model.max_length = 128

  c.optimizer.warmup_steps = 100
  c.train.steps = 4000
  c.train.max_minutes = 8.5  # On a slow machine: fewer steps, not more time.
  c.train.batch_size = 16
  c.train.eval_every = 500
  c.train.checkpoint_every = 500
  c.train.log_every = 20
  c.train.sample_prompts = ("Returns",)
  return c
