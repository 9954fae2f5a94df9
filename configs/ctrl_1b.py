"""CTRL as published: 48 layers, 1,637,964,550 parameters (paper 3.2).

  python -m ctrl_jax.prepare --config=configs/ctrl_1b.py
  python -m ctrl_jax.train --config=configs/ctrl_1b.py --workdir=gs://...

The data are those of `data_ctrl.py`. The paper trained for about two weeks on
256 cores of a TPU v3 pod; parameters and Adagrad's sum take 13.1 GB, cut over
the mesh's fsdp axis. What it would take on a slice of TPUs, that one for
instance (docs/plan.md has the answers):

  python -m ctrl_jax.plan --config=configs/ctrl_1b.py --topology=v3:8x16
"""

from configs import data_ctrl


def get_config():
  c = data_ctrl.get_config()
  c.model.d_model = 1280
  c.model.d_ff = 8192
  c.model.num_layers = 48
  c.model.num_heads = 16
  c.model.max_length = 256
  c.model.vocab_multiple = 2048  # 16 shards of 128 lanes.
  c.model.remat = "dots"  # The fastest on a v3 pod; 16 GB chips want "full".

  c.optimizer.warmup_steps = 25_000
  c.optimizer.clip_norm = 0.25
  c.optimizer.initial_accumulator = 0.1

  c.mesh.data = 1
  c.mesh.fsdp = -1

  c.train.steps = 800_000
  c.train.batch_size = 1024
  c.train.loss_chunk = 4096
  c.train.log_every = 100
  c.train.eval_every = 5000
  c.train.eval_sequences = 16_384
  c.train.checkpoint_every = 1000
  c.train.keep_checkpoints = 3
  return c
