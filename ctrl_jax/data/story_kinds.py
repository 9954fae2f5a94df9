"""The kinds of source that the Transformer CVAE's experiments read."""

from ctrl_jax.data.readers import (
    arxiv_abstracts,
    wiki_plots,
    writing_prompts,
    yelp,
)

# kind -> read(path, **options), see ctrl_jax/data/readers.
READERS = {
    "arxiv_abstracts": arxiv_abstracts.read,
    "wiki_plots": wiki_plots.read,
    "writing_prompts": writing_prompts.read,
    "yelp": yelp.read,
}
