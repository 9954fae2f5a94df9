"""Fine-tunes a model that is there, on text of your own under a new code.

  export CTRL_JAX_MODEL=ctrl             # whatever ctrl_jax.load reads
  export CTRL_JAX_TEXT='mine/*.txt'
  python -m ctrl_jax.prepare --config=configs/finetune.py
  python -m ctrl_jax.train --config=configs/finetune.py --workdir=runs/tuned

The model's sizes come from its folder. Its tokenizer must lie beside it
(`codes` and `vocab` beside the release's TensorFlow checkpoint); a new control
code (`r/mine`) becomes a token behind its vocabulary, which CTRL's and GPT-2's
tokenizers allow.

`--config=configs/finetune.py:accumulators` goes on with the accumulators of
Adagrad that the release's checkpoint brings along, at its learning rate: what
the original's fine-tuning does. They make each step small.
"""

import dataclasses
import os

from ctrl_jax import config, errors, saved_model


def get_config(variant: str = ""):
  """Returns the configuration; reads the model's sizes from its folder."""
  if variant not in ("", "accumulators"):
    raise errors.UserError(
        f"configs/finetune.py:{variant}: the only variant is `accumulators`."
    )
  c = config.default()
  path = os.environ.get("CTRL_JAX_MODEL", "")
  if path:
    sizes = dataclasses.asdict(saved_model.read_config(path))
    c.model.update({k: v for k, v in sizes.items() if k in c.model})
  c.data.folder = "data/finetune"
  c.data.sequence_length = min(256, c.model.max_length)
  c.data.sources = (config.source("text", "r/mine", path="$CTRL_JAX_TEXT"),)
  c.tokenizer.path = "$CTRL_JAX_MODEL"
  c.train.init_from = "$CTRL_JAX_MODEL"
  # The original's fine-tuning: 0.01, global norm clipped to 0.25, no warm-up
  # (training_utils/training.py). Without its accumulators that is a large
  # step, so: less, and a warm-up.
  c.train.init_accumulators = variant == "accumulators"
  c.optimizer.learning_rate = 0.01 if variant else 0.005
  c.optimizer.warmup_steps = 0 if variant else 100
  c.optimizer.initial_accumulator = 0.1
  c.optimizer.clip_norm = 0.25
  c.train.steps = 2000
  c.train.batch_size = 4
  c.train.eval_every = 200
  c.train.checkpoint_every = 200
  return c
