"""Two auxiliaries on one base, beside fine-tuning twice in sequence.

  python -m ctrl_jax.experiment --output=docs/two_tasks --minutes=120 \
      --experiment=configs/two_tasks_experiment.py

Needs the models that configs/keyword_experiment.py and topic_experiment.py
trained. Two auxiliaries, of keywords and of topics, are used alone and together
in one call; fine-tuning on keywords and then on topics, which takes some 25
minutes, may forget the first. Each is asked for a keyword, for a topic, and for
both.
"""

from configs import topic_experiment

_HEADS = dict(
    keyword="runs/keyword/auxiliary-0", topic="runs/topic/auxiliary-0"
)
_WORDS = dict(
    keyword="{keyword}: {prefix}", topic="{topic}: {prefix}",
    both="{topic}: {keyword}: {prefix}",
)


def get_config():
  """Returns the experiment; see `ctrl_jax.experiments.two_tasks_methods`."""
  c = topic_experiment.get_config()
  c.kind = "two_tasks"
  c.workdirs = "runs/two_tasks"
  del c.num_tokens
  c.num_tokens = dict(keyword=30, topic=60, both=60)
  c.num_prompts = 300  # A task.
  c.fractions = (1.0,)
  c.methods = (
      dict(name="base"),
      dict(name="keyword_auxiliary", heads=dict(keyword=_HEADS["keyword"])),
      dict(name="topic_auxiliary", heads=dict(topic=_HEADS["topic"])),
      dict(name="two_auxiliaries", heads=_HEADS),
      dict(
          name="two_auxiliaries_x1.5", heads=_HEADS,
          weights=dict(keyword=1.5, topic=1.5),
      ),
      dict(
          name="finetune_keyword", model="runs/keyword/finetune-0",
          prompts=_WORDS,
      ),
      dict(
          name="finetune_topic", model="runs/topic/finetune-0", prompts=_WORDS
      ),
      dict(
          name="finetune_twice", config="configs/auxiliary_topic.py:twice",
          prompts=_WORDS,
      ),
  )
  return c
