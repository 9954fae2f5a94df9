"""A VAE of abstracts of three topics, from the base that experiments share.

  export CTRL_JAX_DATA=/path/to/data
  python -m ctrl_jax.prepare --config=configs/cvae_arxiv.py
  python -m ctrl_jax.train --config=configs/cvae_arxiv.py \
      --workdir=runs/cvae_arxiv
  python -m ctrl_jax.evaluate_latent --model=runs/cvae_arxiv \
      --label='{primary}' --plots --output=docs/arxiv

Wants `runs/base` (configs/auxiliary_base.py). The encoder reads the abstract
alone, neither its title nor its topic; N(0, 1) is the prior. Of the held-out
abstracts the base has read a half: the latents' labels are new to it, the
perplexity is flattered.
"""

from configs import cvae_stories
from ctrl_jax import config


def get_config(injections: str = "input"):
  """Returns the configuration; `injections` are joined by "+"."""
  c = cvae_stories.get_config(injections)
  c.data.folder = "data/cvae_arxiv"
  c.data.sources = (
      config.source(
          "jsonl", "Text", path="$CTRL_JAX_DATA/arxiv/*.jsonl.gz", template="",
          target="{abstract}",
      ),
  )
  c.cvae.prior = "standard"
  # What an abstract is about stands in words that few others have, which the
  # tables of the base hardly tell apart.
  c.cvae.bag_of_words = 1.0
  c.cvae.latent_size = 16
  c.cvae.kl_floor = 14.0
  # Some 40 minutes on one CPU core.
  c.train.steps = c.optimizer.decay_steps = 1000
  return c
