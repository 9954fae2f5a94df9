"""Auxiliary Tuning over SmolLM2-135M beside the model itself, on keywords.

  python -m ctrl_jax.experiment --output=docs/smollm2 --minutes=120 \
      --experiment=configs/smollm2_experiment.py

Needs what configs/auxiliary_smollm2.py names, and `runs/scorer` of
configs/auxiliary_base.py, whose tokenizer is another one: SLOR is of its
tokens. SmolLM2-135M-Instruct was tuned to follow instructions, so that it can
be told in words what to write.
"""

from configs import keyword_experiment


def get_config():
  """Returns the experiment; see `ctrl_jax.experiments.keyword_methods`."""
  c = keyword_experiment.get_config()
  c.base = "$CTRL_JAX_MODEL"
  c.code = ""  # SmolLM2 has none.
  c.workdirs = "runs/smollm2"
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
  # All leave the model as it is: there is nothing to forget.
  del c.base_data, c.base_sequences
  return c
