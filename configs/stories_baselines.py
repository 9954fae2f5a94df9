"""What the CVAE of stories is compared with, on its data and budget.

  python -m ctrl_jax.prepare --config=configs/stories_baselines.py:finetune
  python -m ctrl_jax.train --config=configs/stories_baselines.py:finetune \
      --workdir=runs/stories/finetune

Wants what configs/cvae_stories.py wants. Variants:

  finetune          all of the base on prompts and stories: the paper's FIST,
                    which without keywords is that (default)
  outline           the same with key phrases of the story behind its prompt,
                    FIST with keywords (Fang et al. 2021): a test with such a
                    prompt is told of the story. Wants data/stories made with
                    --outline=8; prepare once more
  psa               pseudo self-attention over the prompt's encoding, no latent
                    (Ziegler et al. 2019)
  fusion            a frozen base and a network that reads the prompt, hidden
                    states joined by a gate (Fan et al. 2018, without their
                    convolutions); prepare once more, with prompts as attributes
  latent_auxiliary  a frozen base and a network that reads z, trained as a CVAE
  optimus           z as Optimus gives it (Li et al. 2020): input and memory
  cyclical          CVAE 1 with the KL's weight in two cycles (Fu et al. 2019),
                    as the paper anneals it

They train as many steps on the same stories; what the decoder reads of a prompt
is the same for all.
"""

from configs import cvae_stories
from ctrl_jax import errors

VARIANTS = (
    "finetune", "outline", "psa", "fusion", "latent_auxiliary", "optimus",
    "cyclical",
)
# Tokens of a prompt at most: the longest of the stories has some 80.
_PROMPT = 96


def get_config(variant: str = "finetune"):
  """Returns a variant's configuration."""
  if variant not in VARIANTS:
    raise errors.UserError(
        f"configs/stories_baselines.py:{variant}: no such variant."
        f" {errors.nearest(variant, VARIANTS)}"
    )
  c = cvae_stories.get_config()
  if variant == "finetune":
    c.task.name = "language_model"
  elif variant == "outline":
    c.task.name = "language_model"
    c.data.folder = "data/stories_outline"
    _set_sources(c, template="{prompt}\n{outline}\n")
  elif variant == "psa":
    c.cvae.prior = "none"
    c.cvae.reads_words, c.cvae.bag_of_words = False, 0.0
    c.cvae.injections = ("encoder_sequence",)
    c.cvae.source_length = _PROMPT
  elif variant == "fusion":
    _fusion(c)
  elif variant == "latent_auxiliary":
    c.cvae.train_base = False
    c.cvae.injections = ("auxiliary",)
    _auxiliary(c)
  elif variant == "optimus":
    c.cvae.injections = ("input", "memory")
  else:
    c.cvae.beta_schedule = "cyclical"
    c.cvae.beta_period = 300
  return c


def _auxiliary(c) -> None:
  """A network of half the decoder's layers."""
  c.auxiliary.update(
      dict(d_model=256, d_ff=1024, num_layers=3, num_heads=8, reused_layers=2)
  )


def _fusion(c) -> None:
  c.task.name = "auxiliary_tuning"
  _auxiliary(c)
  c.auxiliary.combination = "gate"
  c.auxiliary.attribute_length = c.data.attribute_length = _PROMPT
  c.data.folder = "data/stories_attribute"
  _set_sources(c, attribute="{prompt}")


def _set_sources(c, **fields) -> None:
  c.data.sources = tuple({**source, **fields} for source in c.data.sources)
