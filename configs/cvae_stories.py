"""A CVAE of prompts and stories, from the base that the experiments share.

  export CTRL_JAX_DATA=/path/to/data
  python -m ctrl_jax.prepare --config=configs/cvae_stories.py
  python -m ctrl_jax.train --config=configs/cvae_stories.py \
      --workdir=runs/cvae_stories

Wants `runs/base` (configs/auxiliary_base.py) and its data set's tokenizer; and
`data/stories/{train,validation,test}.jsonl.gz`, the pairs without the base's
training documents (README says how they are made). 25 to 35 minutes on one CPU
core.
:input, :pseudo_self_attention, :softmax or several joined by + choose how z
reaches the decoder.
"""

from ctrl_jax import config

_SPLITS = ("train", "validation", "test")


def get_config(injections: str = "input"):
  """Returns the configuration; `injections` are joined by "+"."""
  c = config.default()
  c.data.folder = "data/cvae_stories"
  c.data.sources = tuple(
      config.source(
          "jsonl", "Text", path=f"data/stories/{split}.jsonl.gz",
          template="{prompt}\n", target="{text}", split=split,
      )
      for split in _SPLITS
  )
  c.data.truncate = True
  c.data.sequence_length = 256
  c.tokenizer.path = "data/base/tokenizer"
  c.tokenizer.vocab_size = 8192

  c.model.d_model = 256
  c.model.d_ff = 1024
  c.model.num_layers = 6
  c.model.num_heads = 8
  c.model.max_length = 256

  c.task.name = "cvae"
  c.cvae.injections = tuple(injections.split("+"))
  c.cvae.num_layers = 1
  c.cvae.latent_size = 32
  # Against a latent that says nothing: it says what a text's halves agree on
  # from the start, and so much of what it says costs nothing. Cycles of beta
  # have the decoder rely, while it is low, on what is taken away afterwards:
  # with so few steps all is lost that it learned meanwhile.
  c.cvae.init_heads = "components"
  c.cvae.reads_words = True
  c.cvae.word_smoothing = 3e-4
  c.cvae.bag_of_words = 0.2
  c.cvae.kl_floor = 16.0
  c.cvae.beta_schedule = "constant"

  # Adagrad's 0.05 moves what it meets for the first time too far.
  c.optimizer.name = "adam"
  c.optimizer.learning_rate = 1e-3
  c.optimizer.warmup_steps = 60

  c.train.init_from = "runs/base"
  c.train.steps = c.optimizer.decay_steps = 600
  c.train.batch_size = 8
  c.train.eval_every = 300
  c.train.checkpoint_every = 200
  c.train.log_every = 20
  c.train.sample_tokens = 0
  return c
