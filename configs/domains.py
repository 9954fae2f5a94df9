"""Sixteen domains of real text: 45 minutes on two CPU cores.

  export CTRL_JAX_DATA=/path/to/data
  python -m ctrl_jax.prepare --config=configs/domains.py
  python -m ctrl_jax.train --config=configs/domains.py --workdir=runs/domains
  python -m ctrl_jax.evaluate --model=runs/domains --control --max-tokens=256

$CTRL_JAX_DATA is laid out as README says: reddit/CODE.jsonl.gz with `title` and
`text`, wikipedia/movies.jsonl.gz, books/*.txt.gz, arxiv/*.jsonl.gz,
questions/opentrivia.jsonl.gz. See README for the numbers it reaches.
"""

from ctrl_jax import config

_DATA = "$CTRL_JAX_DATA/"
SUBREDDITS = (
    "Explain", "Finance", "Fitness", "Joke", "Legal", "Opinion",
    "Relationships", "Retail", "Running", "Scary", "Tech", "Writing",
)


def get_config():
  c = config.default()
  c.data.folder = "data/domains"
  reddit = tuple(
      config.source(
          "jsonl", code, path=f"{_DATA}reddit/{code}.jsonl.gz",
          template="Title: {title} Text: {text}",
      )
      for code in SUBREDDITS
  )
  # The four large ones appear at half their share.
  c.data.sources = reddit + (
      config.source(
          "jsonl", "Wikipedia", path=f"{_DATA}wikipedia/movies.jsonl.gz",
          template="{title}\n{text}", weight=0.5,
      ),
      config.source("text", "Books", path=f"{_DATA}books/*.txt.gz", weight=0.5),
      config.source(
          "jsonl", "Papers", path=f"{_DATA}arxiv/*.jsonl.gz",
          template="Title: {title} Text: {abstract}", weight=0.5,
      ),
      config.source(
          "jsonl", "Questions", path=f"{_DATA}questions/opentrivia.jsonl.gz",
          template="Q: {q} A: {a}", weight=0.5,
      ),
  )
  c.data.sequence_length = 256
  c.data.validation_fraction = 0.02
  c.data.test_fraction = 0.06
  c.tokenizer.vocab_size = 8192

  c.model.d_model = 256
  c.model.d_ff = 1024
  c.model.num_layers = 4
  c.model.num_heads = 8
  c.model.max_length = 256

  c.train.steps = 100_000
  c.train.max_minutes = 45.0
  c.train.batch_size = 8
  c.train.eval_every = 1000
  c.train.eval_sequences = 320
  c.train.checkpoint_every = 500
  c.train.log_every = 20
  c.train.sample_prompts = ("I",)
  return c
