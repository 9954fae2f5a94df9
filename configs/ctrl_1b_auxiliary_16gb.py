"""Tunes an auxiliary network beside CTRL on one device of 16 GB.

  export CTRL_JAX_MODEL=ctrl             # the release as a folder, see README
  export CTRL_JAX_CODE=Links             # the control code of the texts
  python -m ctrl_jax.prepare --config=configs/ctrl_1b_auxiliary_16gb.py
  python -m ctrl_jax.train --config=configs/ctrl_1b_auxiliary_16gb.py \
      --workdir=runs/keyword

As auxiliary.py, which says where texts and attributes come from, for a TPU
v5e-1 (Colab's) or a GPU that computes in bfloat16: CTRL's matrices are stored
as bfloat16 and stay what they are; 21 million parameters train in float32.

  python -m ctrl_jax.plan --config=configs/ctrl_1b_auxiliary_16gb.py \
      --topology=v5e:1x1
"""

import os

from configs import auxiliary, ctrl_1b


def get_config():
  c = auxiliary.get_config()
  if "CTRL_JAX_MODEL" not in os.environ:  # To plan without the model.
    c.model.update(ctrl_1b.get_config().model)
    c.tokenizer.vocab_size = 246_534
  c.model.vocab_multiple = 128
  c.data.sequence_length = 256
  c.auxiliary.d_model = 640
  c.auxiliary.d_ff = 2560
  c.auxiliary.num_layers = 4
  c.auxiliary.num_heads = 16
  c.train.frozen_weights = "bfloat16"
  return c
