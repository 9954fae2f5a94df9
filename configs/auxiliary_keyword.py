"""Every trained method of Auxiliary Tuning's comparison, on one keyword task.

  export CTRL_JAX_DATA=/path/to/data
  python -m ctrl_jax.keywords --output=data/keywords \
      --within=configs/auxiliary_base.py \
      --triples='$CTRL_JAX_DATA/keywords/marker_sentences.jsonl.gz'
  python -m ctrl_jax.prepare --config=configs/auxiliary_keyword.py:feature
  python -m ctrl_jax.train --config=configs/auxiliary_keyword.py:feature \
      --workdir=runs/keyword_feature
  python -m ctrl_jax.sample --model=runs/keyword_feature --code=Text \
      --prompt="It is" --attribute=nevertheless

A text is to be continued so that it holds a keyword. Variants:

  feature       Auxiliary Tuning that reads the base's first layers (default)
  gate          the same, hidden states mixed by a gate (Fan et al. 2018)
  independent   Auxiliary Tuning with an embedding and a table of its own
  finetune      the base, all of it, the keyword as prefix of the text
  scratch       the same from random parameters: the paper's baseline
  lora          low-rank additions to the base, the keyword as prefix
  side          Side-tuning of the base, the keyword as prefix

All train on the same triples for 25 minutes, in batches of 16 sequences of 64
tokens, from runs/base (configs/auxiliary_base.py). The first three share one
data folder, the others another; `prepare` once for each. With the keyword as
prefix a prompt is "nevertheless: It is". `feature@10` trains on 10 % of the
training triples, `feature@1` on 1 %, which lie within the 10 %.
"""

from configs import auxiliary_base
from ctrl_jax import config, errors

_SPLITS = ("train", "validation", "test")
AUXILIARIES = ("feature", "gate", "independent")
PREFIXED = ("finetune", "scratch", "lora", "side")
# Percent of the training triples, behind "@".
SHARES = {"100": 1.0, "10": 0.1, "1": 0.01}
# Adam's. One for all until benchmarks/learning_rates.py has compared them.
LEARNING_RATES = dict.fromkeys(AUXILIARIES + PREFIXED, 1e-3)
# A keyword's tokens at most.
ATTRIBUTE_LENGTH = 8


def get_config(variant: str = "feature"):
  """Returns a variant's configuration, VARIANT or VARIANT@PERCENT."""
  variant, _, percent = variant.partition("@")
  percent = percent or "100"
  for name, known in (
      (variant, AUXILIARIES + PREFIXED), (percent, tuple(SHARES))
  ):
    if name not in known:
      raise errors.UserError(
          f"configs/auxiliary_keyword.py: no variant has {name!r}."
          f" {errors.nearest(name, known)}"
      )
  c = config.default()
  _data(c, variant in AUXILIARIES)
  c.data.train_share = SHARES[percent]
  if percent != "100":
    c.data.folder += f"_{percent}"
  c.model.update(auxiliary_base.get_config().model)
  c.optimizer.name = "adam"
  c.optimizer.learning_rate = LEARNING_RATES[variant]
  c.optimizer.warmup_steps = 100
  c.train.steps = 100_000
  c.train.max_minutes = 25.0
  c.train.batch_size = 16
  c.train.eval_every = 500
  c.train.checkpoint_every = 500
  c.train.keep_checkpoints = 100  # Points of a curve against the steps.
  c.train.log_every = 20
  c.train.sample_tokens = 0
  if variant != "scratch":
    c.train.init_from = "runs/base"
  if variant in AUXILIARIES:
    c.task.name = "auxiliary_tuning"
    c.task.attribute_dropout = 0.1
    c.auxiliary.kind = "independent" if variant == "independent" else "feature"
    c.auxiliary.combination = "gate" if variant == "gate" else "sum"
    c.auxiliary.attribute_length = ATTRIBUTE_LENGTH
    c.auxiliary.reused_layers = 2
    c.auxiliary.d_model = 128
  elif variant == "lora":
    c.task.name = "lora"
  elif variant == "side":
    c.task.name = "side_tuning"
  return c


def _data(c, has_attribute: bool) -> None:
  """The triples, the keyword as an attribute or in front of the prefix."""
  form = dict(template="{keyword}: {prefix}", target="{text}")
  if has_attribute:
    form = dict(
        template="{prefix}", target="{text}", attribute="{keyword}"
    )
    c.data.attribute_length = ATTRIBUTE_LENGTH
  c.data.folder = (
      "data/keyword_attribute" if has_attribute else "data/keyword_prefix"
  )
  c.data.sources = tuple(
      config.source(
          "jsonl", auxiliary_base.CODE, split=split,
          path=f"data/keywords/{split}.jsonl.gz", **form,
      )
      for split in _SPLITS
  )
  c.data.sequence_length = 64
  c.tokenizer.path = "data/base/tokenizer"
