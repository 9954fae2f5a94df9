"""A VAE of restaurant reviews, split 10-1-1 as the paper's Table 1 says.

  export CTRL_JAX_DATA=/path/to/data
  python -m ctrl_jax.prepare --config=configs/cvae_yelp.py
  python -m ctrl_jax.train --config=configs/cvae_yelp.py \
      --workdir=runs/cvae_yelp
  python -m ctrl_jax.evaluate_latent --model=runs/cvae_yelp \
      --label='{sentiment}' --plots

Wants `runs/base` (configs/auxiliary_base.py), and in $CTRL_JAX_DATA/yelp the
120,000 reviews of Yang et al. 2017, as He et al. 2018 publish them; which of
their files a review stands in does not matter, the split is by a hash. Neither
stars nor sentiment are in what the encoder reads. Not run: the reviews were not
at hand. For the paper's Figure 4 give the source
options=dict(drop_neutral=True), which leaves three stars out.
"""

from configs import cvae_arxiv
from ctrl_jax import config


def get_config(injections: str = "pseudo_self_attention"):
  """Returns the configuration; `injections` are joined by "+"."""
  c = cvae_arxiv.get_config(injections)
  c.data.folder = "data/cvae_yelp"
  c.data.sources = (
      config.source(
          "yelp", "Text", path="$CTRL_JAX_DATA/yelp/*.txt", template="",
          target="{text}",
      ),
  )
  # Of 12 parts 10 to train on.
  c.data.validation_fraction = c.data.test_fraction = 1 / 12
  return c
