"""Auxiliary Tuning over SmolLM2-135M beside the model itself, on keywords.

  python -m ctrl_jax.experiment --output=docs/smollm2 --minutes=150 \
      --experiment=configs/smollm2_experiment.py

Needs what configs/auxiliary_smollm2.py names, and `runs/scorer` of
configs/auxiliary_base.py, whose tokenizer is another one: SLOR is of its
tokens. SmolLM2-135M-Instruct was tuned to follow instructions, so that it can
be told in words what to write.
"""

import ml_collections


def get_config():
  """Returns the experiment; see `ctrl_jax.experiments.keyword_methods`."""
  c = ml_collections.ConfigDict()
  c.kind = "keyword"
  c.keywords = "data/keywords"
  c.base = "$CTRL_JAX_MODEL"
  c.scorer = "runs/scorer"
  c.scorer_data = "data/scorer"
  c.code = ""  # SmolLM2 has none.
  c.scorer_code = "Text"
  c.workdirs = "runs/smollm2"
  c.num_prompts = 500  # Held out, the same for all.
  c.num_tokens = 30  # A sample, at temperature 1 and weight 1.
  c.batch_size = 50  # Samples at a time.
  c.steps = 1500
  c.fractions = (0.1, 0.3, 1.0)
  c.methods = (
      dict(name="base", frozen=True),
      dict(
          name="auxiliary", config="configs/auxiliary_smollm2.py", frozen=True,
          attribute="{keyword}",
      ),
      dict(name="zero_shot", sampler="zero_shot", frozen=True),
      dict(name="few_shot", sampler="few_shot", frozen=True),
  )
  return c
