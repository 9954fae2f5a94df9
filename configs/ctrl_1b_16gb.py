"""Fine-tunes all 1.64 billion weights of CTRL on one device of 16 GB.

  export CTRL_JAX_MODEL=ctrl             # the release as a folder, see README
  export CTRL_JAX_TEXT='mine/*.txt'
  python -m ctrl_jax.prepare --config=configs/ctrl_1b_16gb.py
  python -m ctrl_jax.train --config=configs/ctrl_1b_16gb.py --workdir=runs/tuned

As finetune.py, for a TPU v5e-1 (Colab's) or a GPU that computes in bfloat16.
Parameters are float32 in two halves, their gradients bfloat16, and Adagrad's
sums are factored: 11.4 GiB in a step, 12.6 with T=512 or a batch of 32, by

  python -m ctrl_jax.plan --config=configs/ctrl_1b_16gb.py --topology=v5e:1x1
"""

import os

from configs import ctrl_1b, finetune


def get_config():
  c = finetune.get_config()
  if not os.environ.get("CTRL_JAX_MODEL"):  # To plan without the model.
    c.model.update(ctrl_1b.get_config().model)
    c.tokenizer.vocab_size = 246_534
  c.model.vocab_multiple = 128
  c.model.remat = "full"
  c.optimizer.name = "factored_adagrad"
  c.train.weights = "split"
  c.train.batch_size = 16
  # A checkpoint has 6.6 GB.
  c.train.eval_every = 500
  c.train.checkpoint_every = 500
  c.train.keep_checkpoints = 1
  return c
