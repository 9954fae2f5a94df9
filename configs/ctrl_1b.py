"""CTRL as published: 48 layers, 1,637,964,550 parameters (paper 3.2).

  python -m ctrl_jax.prepare --config=configs/ctrl_1b.py
  python -m ctrl_jax.train --config=configs/ctrl_1b.py --workdir=gs://...

The sources below are the paper's kinds of text, read from the folder that
$CTRL_CORPUS names; change them to what you have. The paper trained for about
two weeks on 256 cores of a TPU v3 pod; parameters and Adagrad's sum take 13.1
GB, cut over the mesh's fsdp axis. What it would take on a slice of TPUs, that
one for instance (docs/plan.md has the answers):

  python -m ctrl_jax.plan --config=configs/ctrl_1b.py --topology=v3:8x16
"""

from ctrl_jax import config

_CORPUS = "$CTRL_CORPUS/"

# A few of the paper's 41 subreddits (appendix, table 7).
_SUBREDDITS = (
    "Christianity", "Computing", "Diet", "Explain", "Finance", "Fitness",
    "Horror", "Joke", "Legal", "Politics", "Relationships", "Running",
    "Science", "Technologies", "Writing",
)


def sources():
  """The paper's sources, by control code and secondary codes."""
  text = lambda code, folder: config.source(
      "text", code, path=f"{_CORPUS}{folder}/*.txt.gz"
  )
  table = lambda code, folder, template, target="": config.source(
      "jsonl", code, path=f"{_CORPUS}{folder}/*.jsonl.gz", template=template,
      target=target,
  )
  result = [
      text("Wikipedia", "wikipedia"),
      text("Books", "books"),
      text("News", "news"),
      table("Links", "links", "{url} {text}"),
      table("Reviews", "reviews", "Rating: {stars} {text}"),
      table("Questions", "questions", "Q: {question} A:", " {answer}"),
      table("Translation", "translation", "English : {en} ; German :", " {de}"),
  ]
  for code in _SUBREDDITS:
    result.append(
        table(code, f"reddit/{code}", "Title: {title} Text: {text}")
    )
  return tuple(result)


def get_config():
  c = config.default()
  c.data.folder = "data/ctrl_256"
  c.data.sources = sources()
  c.data.sequence_length = 256
  # The release's; a vocabulary learned at another size is as good a start.
  c.tokenizer.vocab_size = 246_534
  c.tokenizer.train_chars = 2_000_000_000

  c.model.d_model = 1280
  c.model.d_ff = 8192
  c.model.num_layers = 48
  c.model.num_heads = 16
  c.model.max_length = 256
  c.model.vocab_multiple = 2048  # 16 shards of 128 lanes.
  c.model.remat = "dots"  # The fastest on a v3 pod; 16 GB chips want "full".

  c.optimizer.warmup_steps = 25_000
  c.optimizer.clip_norm = 0.25
  c.optimizer.initial_accumulator = 0.1

  c.mesh.data = 1
  c.mesh.fsdp = -1

  c.train.steps = 800_000
  c.train.batch_size = 1024
  c.train.loss_chunk = 4096
  c.train.log_every = 100
  c.train.eval_every = 5000
  c.train.eval_sequences = 16_384
  c.train.checkpoint_every = 1000
  c.train.keep_checkpoints = 3
  return c
