"""The Transformer CVAE's Table 3 and Figures 4 and 5, measured again.

  export CTRL_JAX_DATA=/path/to/data
  python -m ctrl_jax.split --output=data/stories --text='{story}' \
      --min_words=230 --input='$CTRL_JAX_DATA/stories/*.jsonl.gz'
  python -m ctrl_jax.prepare --config=configs/cvae_stories.py
  python -m ctrl_jax.experiment --output=docs/stories --minutes=100 \
      --experiment=configs/cvae_experiment.py

Trains `runs/base` (configs/auxiliary_base.py) first. Stories: the CVAE with
each injection and its baselines, as many steps each, 20 to 35 minutes on one
CPU core, and three seeds for CVAE 1 and fine-tuning. Abstracts: a VAE, 40
minutes.
The command begins nothing after --minutes, and goes on when it is run again.
"""

import ml_collections

_CVAE = "configs/cvae_stories.py"
_BASELINE = "configs/stories_baselines.py"


def get_config():
  """Returns the experiment; see `ctrl_jax.experiments.cvae_methods`."""
  c = ml_collections.ConfigDict()
  c.kind = "cvae"
  c.models = (dict(workdir="runs/base", config="configs/auxiliary_base.py"),)
  c.base = "runs/base"
  c.data = "data/cvae_stories"  # What the base as it is is measured on.
  c.code = "Text"  # Of all prompts.
  c.workdirs = "runs/stories"  # One folder a method and seed.
  c.steps = 0  # Each configuration's own.
  c.fractions = (1.0,)  # Of the steps: where a method is measured.
  # Held-out stories, the same for all methods.
  c.bound_texts = 100  # For perplexities.
  c.latents = 50  # S, of importance weighting: see `bounds.balanced_nll`.
  # For KL, mutual information and active units: test, then validation texts.
  c.texts = 500
  c.num_prompts = 200  # For samples, at temperature 0.9, k=100, p=0.9.
  c.num_tokens = 200  # A sample at most; with the prompt in the window of 256.
  c.batch_size = 20  # Samples at a time.
  c.rank_stories = 100
  c.rank_prompts = 10  # The true one among them.
  c.rank_latents = 4  # S, of the prior.
  c.control_pairs = 50  # Of p(y | x1, z2).
  # For the VAE's labels.
  c.train_texts = 4000
  c.label_texts = 500
  c.methods = (
      dict(name="base"),
      dict(
          name="finetune", config=f"{_BASELINE}:finetune", seeds=(0, 1, 2)
      ),
      dict(name="cvae_1", config=f"{_CVAE}:input", seeds=(0, 1, 2)),
      dict(name="cvae_2", config=f"{_CVAE}:pseudo_self_attention"),
      dict(name="vae_arxiv", config="configs/cvae_arxiv.py",
           label="{primary}"),
      dict(name="cvae_12", config=f"{_CVAE}:input+pseudo_self_attention"),
      dict(name="cvae_3", config=f"{_CVAE}:softmax"),
      dict(name="psa", config=f"{_BASELINE}:psa"),
      dict(name="fusion", config=f"{_BASELINE}:fusion", attribute=True),
      dict(name="latent_auxiliary", config=f"{_BASELINE}:latent_auxiliary"),
      dict(name="optimus", config=f"{_BASELINE}:optimus"),
      dict(name="cvae_1_cyclical", config=f"{_BASELINE}:cyclical"),
  )
  return c
