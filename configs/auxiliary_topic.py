r"""A second task for Auxiliary Tuning: abstracts of a topic.

  export CTRL_JAX_DATA=/path/to/data
  python -m ctrl_jax.split --output=data/topics --validation_fraction=0.2 \
      --test_fraction=0.02 --train_share=0,0.5 \
      --input='$CTRL_JAX_DATA/arxiv/*.jsonl.gz' \
      --prompt='{primary}' --text='{abstract}' --by=$'{title}\n{abstract}'
  python -m ctrl_jax.prepare --config=configs/auxiliary_topic.py:feature
  python -m ctrl_jax.train --config=configs/auxiliary_topic.py:feature \
      --workdir=runs/topic_feature
  python -m ctrl_jax.sample --model=runs/topic_feature --code=Text \
      --prompt="In this paper we" --attribute=cs.CV

As configs/auxiliary_keyword.py in all but the data: `feature` (default),
`finetune` and `scratch`, which read "cs.CV: In this paper we", and

  twice         runs/keyword/finetune-0, tuned on topics after keywords

(configs/keyword_experiment.py makes that one). The test abstracts are of no
other model's training: configs/auxiliary_base.py holds out, of both its models,
the 2 % whose hash of title and abstract is lowest, and --by and --test_fraction
above choose the same. The next 20 % are the judge's. Of the rest, what the base
may have read is trained on: the scorer has read none of it (--train_share).
"""

from configs import auxiliary_base, auxiliary_keyword
from ctrl_jax import config, errors

VARIANTS = ("feature", "finetune", "scratch", "twice")


def get_config(variant: str = "feature"):
  """Returns a variant's configuration."""
  if variant not in VARIANTS:
    raise errors.UserError(
        f"configs/auxiliary_topic.py:{variant}: no such variant."
        f" {errors.nearest(variant, VARIANTS)}"
    )
  method = "finetune" if variant == "twice" else variant
  c = auxiliary_keyword.get_config(method)
  # The space is the text's, as in a prompt "cs.CV: In this paper".
  form = dict(template="{prompt}:", target=" {text}")
  if method in auxiliary_keyword.AUXILIARIES:
    form = dict(template="", target="{text}", attribute="{prompt}")
  c.data.folder = c.data.folder.replace("keyword", "topic")
  c.data.sources = tuple(
      config.source(
          "jsonl", auxiliary_base.CODE, split=split,
          path=f"data/topics/{split}.jsonl.gz", **form,
      )
      for split in ("train", "validation", "test")
  )
  # An abstract's first tokens, the topic with each; as many tokens an update.
  c.data.truncate = True
  c.data.sequence_length *= 2
  c.train.batch_size //= 2
  if variant == "twice":
    c.train.init_from = "runs/keyword/finetune-0"
  return c
