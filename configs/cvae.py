"""A Transformer CVAE over a model that is there, from pairs of your own.

  export CTRL_JAX_MODEL=runs/mine        # whatever ctrl_jax.load reads
  export CTRL_JAX_CODE=Books             # a control code of it; unset for none
  python -m ctrl_jax.split --output=data/my_pairs --input=pairs.jsonl
  python -m ctrl_jax.prepare --config=configs/cvae.py
  python -m ctrl_jax.train --config=configs/cvae.py --workdir=runs/my_cvae
  python -m ctrl_jax.sample --model=runs/my_cvae --code=Books \
      --prompt=$'A prompt\n' --latent=prior --rules=cvae

`pairs.jsonl` has lines {"prompt": ..., "text": ...}. The model's sizes and
tokenizer come from its folder; all of it trains along after `freeze_steps`.
:input, :pseudo_self_attention, :softmax or several joined by + choose how z
reaches the decoder.
"""

import os

from configs import finetune
from ctrl_jax import config


def get_config(injections: str = "input"):
  """Returns the configuration; reads `config.json` of the model."""
  c = finetune.get_config()
  c.optimizer.update(config.default().optimizer)
  c.data.folder = "data/my_cvae"
  c.data.sources = tuple(
      config.source(
          "jsonl", os.environ.get("CTRL_JAX_CODE", ""),
          path=f"data/my_pairs/{split}.jsonl.gz", template="{prompt}\n",
          target="{text}", split=split, name=split,
      )
      for split in ("train", "validation", "test")
  )
  c.data.truncate = True
  c.task.name = "cvae"
  c.cvae.injections = tuple(injections.split("+"))
  # Of the model's layers half, as in the paper.
  c.cvae.num_layers = max(1, c.model.num_layers // 2)
  c.cvae.freeze_steps = 100
  c.cvae.beta_period = 500
  c.train.steps = 2000
  c.train.batch_size = 8
  c.train.eval_every = 250
  c.train.checkpoint_every = 250
  c.train.sample_tokens = 0
  return c
