"""A CVAE of films' titles and lead paragraphs: short texts of one paragraph.

  export CTRL_JAX_DATA=/path/to/data
  python -m ctrl_jax.prepare --config=configs/cvae_films.py
  python -m ctrl_jax.train --config=configs/cvae_films.py \
      --workdir=runs/cvae_films
  python -m ctrl_jax.sample --model=runs/cvae_films --code=Text \
      --prompt=$'The Old House\n' --latent=prior --rules=cvae

Wants `runs/base` (configs/auxiliary_base.py) and its data set's tokenizer. Of
wikipedia/movies.jsonl.gz it takes the half that the base has not read, split by
the hash of title and text. There is no label to probe: the genre stands in most
of the texts.
:input, :pseudo_self_attention, :softmax or several joined by + choose how z
reaches the decoder.
"""

from configs import auxiliary_base, cvae_stories
from ctrl_jax import config


def get_config(injections: str = "input"):
  """Returns the configuration; `injections` are joined by "+"."""
  c = cvae_stories.get_config(injections)
  c.data.folder = "data/cvae_films"
  c.data.sources = (
      config.source(
          "jsonl", auxiliary_base.CODE,
          path="$CTRL_JAX_DATA/wikipedia/movies.jsonl.gz",
          template="{title}\n", target="{text}",
      ),
  )
  # The same documents, hashed alike, as in the base's data set.
  c.data.share = auxiliary_base.SHARES["scorer"]
  # A text has some 55 words; as many tokens a batch as there.
  c.data.sequence_length = 128
  c.train.batch_size = 16
  return c
