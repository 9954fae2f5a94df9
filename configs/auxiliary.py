"""Auxiliary Tuning: steers a model that is there and stays as it is.

  export CTRL_JAX_MODEL=runs/demo        # whatever ctrl_jax.load reads
  export CTRL_JAX_CODE=numpy             # a control code of it; unset for none
  python -m ctrl_jax.keywords --config=configs/demo.py --keywords=mine.txt \
      --output=data/my_keywords
  python -m ctrl_jax.prepare --config=configs/auxiliary.py
  python -m ctrl_jax.train --config=configs/auxiliary.py --workdir=runs/keyword
  python -m ctrl_jax.sample --model=runs/keyword --code=numpy \
      --prompt="Returns" --attribute=otherwise --temperature=1

Texts and their attributes are the triples that `ctrl_jax.keywords` makes; for
other attributes change the source: any field can be one. The frozen model's
sizes and tokenizer come from its folder.
"""

import dataclasses
import os

from ctrl_jax import config, saved_model


def get_config():
  """Returns the configuration; reads `config.json` of the model."""
  c = config.default()
  path = os.environ.get("CTRL_JAX_MODEL", "")
  c.tokenizer.path = "$CTRL_JAX_MODEL"
  if path:
    sizes = dataclasses.asdict(saved_model.read_config(path))
    c.model.update({k: v for k, v in sizes.items() if k in c.model})
  c.train.init_from = "$CTRL_JAX_MODEL"
  c.data.folder = "data/auxiliary"
  c.data.sequence_length = min(96, c.model.max_length)
  c.data.attribute_length = min(16, c.model.max_length)
  # The loss is on what follows the prefix.
  c.data.sources = tuple(
      config.source(
          "jsonl", os.environ.get("CTRL_JAX_CODE", ""),
          path=f"data/my_keywords/{split}.jsonl.gz", template="{prefix}",
          target="{text}", attribute="{keyword}", split=split, name=split,
      )
      for split in ("train", "validation", "test")
  )
  c.task.name = "auxiliary_tuning"
  c.task.attribute_dropout = 0.1  # For --guidance.
  c.auxiliary.attribute_length = c.data.attribute_length
  c.auxiliary.reused_layers = min(2, c.model.num_layers)
  # Half the frozen model's width, in its own number of heads.
  c.auxiliary.d_model = max(c.model.d_model // 2, 2 * c.model.num_heads)
  c.auxiliary.d_ff = 4 * c.auxiliary.d_model
  c.auxiliary.num_heads = c.model.num_heads
  c.optimizer.name = "adam"
  c.optimizer.learning_rate = 1e-3
  c.optimizer.warmup_steps = 100
  c.train.steps = 2000
  c.train.batch_size = 16
  c.train.eval_every = 500
  c.train.checkpoint_every = 250
  c.train.sample_tokens = 0
  return c
