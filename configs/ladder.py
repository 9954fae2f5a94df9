"""Small CTRLs of growing size, for experiments and for one accelerator.

  python -m ctrl_jax.prepare --config=configs/ladder.py:25m
  python -m ctrl_jax.train --config=configs/ladder.py:25m --workdir=runs/25m

Sizes, parameters at a vocabulary of 32,768 included: 6m, 25m, 110m, 350m. They
share one data set, of the sources of data_ctrl.py.
"""

from configs import data_ctrl
from ctrl_jax import config, errors

# Name: d_model, d_ff, num_layers, num_heads, batch_size.
SIZES = {
    "6m": (128, 512, 8, 4, 64),
    "25m": (384, 1536, 7, 6, 128),
    "110m": (768, 3072, 12, 12, 256),
    "350m": (1024, 6144, 19, 16, 512),
}


def get_config(size="25m"):
  if size not in SIZES:
    raise errors.UserError(
        f"configs/ladder.py:{size}: no such size. {errors.nearest(size, SIZES)}"
    )
  c = config.default()
  c.data.folder = "data/ladder"
  c.data.sources = data_ctrl.sources()
  c.tokenizer.vocab_size = 32_768
  m = c.model
  m.d_model, m.d_ff, m.num_layers, m.num_heads, c.train.batch_size = SIZES[size]
  m.vocab_multiple = 128
  m.remat = "dots"
  c.mesh.fsdp = -1
  c.mesh.data = 1
  c.optimizer.warmup_steps = 2500
  c.optimizer.clip_norm = 0.25
  c.optimizer.initial_accumulator = 0.1
  c.train.steps = 50_000
  c.train.loss_chunk = 4096
  return c
