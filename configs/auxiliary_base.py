"""The language models that Auxiliary Tuning's and the CVAE's experiments share.

  export CTRL_JAX_DATA=/path/to/data
  python -m ctrl_jax.keywords --output=data/keywords \
      --within=configs/auxiliary_base.py \
      --triples='$CTRL_JAX_DATA/keywords/marker_sentences.jsonl.gz'
  python -m ctrl_jax.split --output=data/stories --text='{story}' \
      --min_words=230 --input='$CTRL_JAX_DATA/stories/*.jsonl.gz'
  python -m ctrl_jax.prepare --config=configs/auxiliary_base.py
  python -m ctrl_jax.train --config=configs/auxiliary_base.py \
      --workdir=runs/base
  python -m ctrl_jax.prepare --config=configs/auxiliary_base.py:scorer
  python -m ctrl_jax.train --config=configs/auxiliary_base.py:scorer \
      --workdir=runs/scorer

General language models of books, films, papers and posts, 4,000 steps or some
60 minutes each on two CPU cores: the base that is tuned, and the scorer whose
SLOR judges fluency.
They learn from different documents, with one tokenizer, and from none that
holds a test example of the keywords or stories.
"""

from ctrl_jax import config

_DATA = "$CTRL_JAX_DATA/"
# The one control code: a symbol that begins a text.
CODE = "Text"
SHARES = {"base": (0.0, 0.5), "scorer": (0.5, 1.0)}


def get_config(name: str = "base"):
  """Returns the configuration of "base" or "scorer"."""
  c = config.default()
  c.data.folder = f"data/{name}"
  c.data.sources = (
      config.source(
          "jsonl", CODE, path=f"{_DATA}reddit/*.jsonl.gz",
          template="{title}\n{text}",
      ),
      config.source(
          "jsonl", CODE, path=f"{_DATA}stories/*.jsonl.gz",
          template="{prompt}\n{story}",
      ),
      config.source(
          "jsonl", CODE, path=f"{_DATA}wikipedia/movies.jsonl.gz",
          template="{title}\n{text}",
      ),
      config.source("text", CODE, path=f"{_DATA}books/*.txt.gz"),
      config.source(
          "jsonl", CODE, path=f"{_DATA}arxiv/*.jsonl.gz",
          template="{title}\n{abstract}",
      ),
  )
  c.data.share = SHARES[name]
  c.data.exclude = ("data/keywords/test.jsonl.gz", "data/stories/test.jsonl.gz")
  c.data.sequence_length = 256
  c.data.validation_fraction = 0.02
  c.data.test_fraction = 0.0
  c.tokenizer.vocab_size = 8192
  if name == "scorer":
    c.tokenizer.path = "data/base/tokenizer"

  c.model.d_model = 256
  c.model.d_ff = 1024
  c.model.num_layers = 6
  c.model.num_heads = 8
  c.model.max_length = 256

  c.train.steps = 4000  # One pass over its documents.
  c.train.batch_size = 8
  c.train.eval_every = 1000
  c.train.checkpoint_every = 500
  c.train.log_every = 20
  c.train.sample_prompts = ("I",)
  return c
