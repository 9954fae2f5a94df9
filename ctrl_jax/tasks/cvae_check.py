"""What data and configuration a CVAE cannot learn from."""

from typing import Any

from ctrl_jax import errors
from ctrl_jax.tasks import cvae_init


def check(config: Any, manifest: Any) -> None:
  """Refuses data that a CVAE cannot learn from.

  Args:
    config: of the run, see `ctrl_jax.config.default`.
    manifest: the prepared data set.

  Raises:
    errors.UserError: a prior that reads prompts, and data without; nothing to
      freeze; parameters in two parts where texts are read first; or what is for
      language models alone.
  """
  c, t = config.cvae, config.train
  if not t.init_from and (c.freeze_steps or not c.train_base):
    raise errors.UserError(
        "cvae.freeze_steps and cvae.train_base=False keep a trained decoder as"
        " it is, and there is none: say which with train.init_from, or set"
        " cvae.freeze_steps=0 and cvae.train_base=True."
    )
  if t.init_accumulators:
    raise errors.UserError(
        "train.init_accumulators is for language models alone: set it to False."
    )
  if t.sample_tokens:
    raise errors.UserError(
        "Samples at evaluations are of language models alone: set"
        " train.sample_tokens=0, and sample the workdir with --latent=prior."
    )
  reads_texts_first = c.reads_words or cvae_init.wants_texts(c)
  if reads_texts_first and t.weights != "float32":
    raise errors.UserError(
        "cvae.init_heads='components', cvae.reads_words and cvae.word_smoothing"
        " need train.weights='float32'."
    )
  if c.prior == "standard":
    return
  made_of = manifest.config.get("data", {}).get("sources", ())
  if not made_of or not all(source.get("target") for source in made_of):
    raise errors.UserError(
        f"task.name='cvae' with cvae.prior={c.prior!r} needs pairs of a prompt"
        " and a text: give every source a target, as template='{prompt}\\n' and"
        " target='{text}', and prepare again; or set cvae.prior='standard'."
    )
  for source in manifest.sources:
    for split, counts in source.splits.items():
      rest = counts.sequences - counts.documents
      if rest > 0:
        raise errors.UserError(
            f"{rest} sequences of {source.name!r} ({split}) go on with a long"
            " text and lack its prompt: prepare again with data.truncate=True."
        )
