"""Auxiliary Tuning's Figure 3 and Table 1, measured again on keywords.

  export CTRL_JAX_DATA=/path/to/data
  python -m ctrl_jax.keywords --output=data/keywords \
      --within=configs/auxiliary_base.py \
      --triples='$CTRL_JAX_DATA/keywords/marker_sentences.jsonl.gz'
  python -m ctrl_jax.split --output=data/stories --text='{story}' \
      --min_words=230 --input='$CTRL_JAX_DATA/stories/*.jsonl.gz'
  python -m ctrl_jax.experiment --output=docs/keywords --minutes=120 \
      --experiment=configs/keyword_experiment.py

Trains the two models of configs/auxiliary_base.py first, `runs/base` and
`runs/scorer`, which keep away from the test stories of the CVAE's experiment.
Every trained method gets the same tokens, some 25 minutes on a CPU core. The
command begins nothing after --minutes, and goes on when it is run again. The
last rows, `auxiliary@10` and so on, train on a part of the triples.
"""

import ml_collections

_TRAIN = "configs/auxiliary_keyword.py"
# The keyword as text, for models that know no other way.
_PREFIX = "{keyword}: {prefix}"


def get_config():
  """Returns the experiment; see `ctrl_jax.experiments.keyword_methods`."""
  c = ml_collections.ConfigDict()
  c.kind = "keyword"
  c.keywords = "data/keywords"
  c.models = (
      dict(workdir="runs/base", config="configs/auxiliary_base.py"),
      dict(workdir="runs/scorer", config="configs/auxiliary_base.py:scorer"),
  )
  c.base = "runs/base"
  c.base_data = "data/base"
  c.scorer = "runs/scorer"
  c.scorer_data = "data/scorer"
  c.code = "Text"  # Of all prompts; "" for none.
  c.scorer_code = "Text"  # In front of what it scores.
  c.workdirs = "runs/keyword"  # One folder a method and seed.
  c.num_prompts = 500  # Held out, the same for all.
  c.num_tokens = 30  # A sample, at temperature 1 and weight 1.
  c.batch_size = 50  # Samples at a time.
  c.base_sequences = 200  # Of the base's validation, for forgetting.
  # The budget: updates of 16 sequences of 64 tokens.
  c.steps = 1500
  # Of the budget: where a method is measured.
  c.fractions = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
  c.methods = (
      dict(name="base"),
      dict(
          name="auxiliary", config=f"{_TRAIN}:feature", frozen=True,
          attribute="{keyword}", seeds=(0, 1, 2),
      ),
      dict(
          name="auxiliary_independent", config=f"{_TRAIN}:independent",
          frozen=True, attribute="{keyword}",
      ),
      dict(
          name="fusion_gate", config=f"{_TRAIN}:gate", frozen=True,
          attribute="{keyword}",
      ),
      dict(
          name="scratch", config=f"{_TRAIN}:scratch", prompt=_PREFIX,
          seeds=(0, 1, 2),
      ),
      dict(name="finetune", config=f"{_TRAIN}:finetune", prompt=_PREFIX),
      # Their base stays as it is, but not what they make of its text.
      dict(name="lora", config=f"{_TRAIN}:lora", prompt=_PREFIX),
      dict(name="side", config=f"{_TRAIN}:side", prompt=_PREFIX),
      # These only sample from the base.
      dict(name="zero_shot", sampler="zero_shot"),
      dict(name="few_shot", sampler="few_shot"),
      dict(name="pplm", sampler="pplm", num_prompts=100),
  )
  c.methods += _with_less_text(c.methods)
  return c


def _with_less_text(methods):
  """Three of the methods on 10 and 1 % of the triples, for as many steps."""
  return tuple(
      row | dict(
          name=f"{row['name']}@{percent}", config=f"{row['config']}@{percent}",
          seeds=(0,),
      )
      for percent in (10, 1)
      for row in methods
      if row["name"] in ("auxiliary", "finetune", "scratch")
  )
