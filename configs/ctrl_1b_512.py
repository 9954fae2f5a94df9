"""CTRL with sequences of 512 tokens (the release's second model).

  python -m ctrl_jax.prepare --config=configs/ctrl_1b_512.py
  python -m ctrl_jax.train --config=configs/ctrl_1b_512.py --workdir=gs://...

As ctrl_1b.py otherwise; activations take twice the memory.
"""

from configs import ctrl_1b


def get_config():
  c = ctrl_1b.get_config()
  c.data.folder = "data/ctrl_512"
  c.data.sequence_length = 512
  c.model.max_length = 512
  return c
