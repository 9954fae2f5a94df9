r"""Auxiliary Tuning on a second task: the topic of an arXiv abstract.

  export CTRL_JAX_DATA=/path/to/data
  python -m ctrl_jax.split --output=data/topics --validation_fraction=0.2 \
      --test_fraction=0.02 --train_share=0,0.5 \
      --input='$CTRL_JAX_DATA/arxiv/*.jsonl.gz' \
      --prompt='{primary}' --text='{abstract}' --by=$'{title}\n{abstract}'
  python -m ctrl_jax.experiment --output=docs/topics --minutes=120 \
      --experiment=configs/topic_experiment.py

As configs/keyword_experiment.py, of which it needs the two models. Accuracy is
the share of samples that a classifier names to be of the topic asked for; it
learned from abstracts that no method is tuned on, and its accuracy on real ones
stands beside it.
"""

from configs import keyword_experiment

_TRAIN = "configs/auxiliary_topic.py"


def get_config():
  """Returns the experiment; see `ctrl_jax.experiments.topic_methods`."""
  c = keyword_experiment.get_config()
  c.kind = "topic"
  c.topics = "data/topics"  # Of `ctrl_jax.split`; see configs/auxiliary_topic.
  c.workdirs = "runs/topic"
  c.num_tokens = 60  # A topic takes more words to show than a keyword.
  c.methods = (
      dict(name="base"),
      dict(
          name="auxiliary", config=f"{_TRAIN}:feature", frozen=True,
          attribute="{topic}",
      ),
      dict(
          name="finetune", config=f"{_TRAIN}:finetune",
          prompt="{topic}: {prefix}",
      ),
      dict(
          name="scratch", config=f"{_TRAIN}:scratch",
          prompt="{topic}: {prefix}",
      ),
      # By a discriminator of the base's states, with the original's amounts.
      dict(name="pplm", sampler="pplm", num_prompts=100),
  )
  return c
