"""CTRL with 36 layers, 1,307,426,566 parameters (the release's third model).

  python -m ctrl_jax.train --config=configs/ctrl_36_layers.py --workdir=gs://...

Reads the data set of ctrl_1b.py.
"""

from configs import ctrl_1b


def get_config():
  c = ctrl_1b.get_config()
  c.model.num_layers = 36
  return c
