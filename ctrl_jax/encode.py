"""Encodes texts into a file of latents.

  python -m ctrl_jax.encode --model=runs/cvae --code=Text \\
      --input='data/stories/test.jsonl.gz' --output=latents.npz
  python -m ctrl_jax.sample --model=runs/cvae --code=Text --rules=cvae \\
      --prompt=$'The old house\\n' --latent=latents.npz --latent-id=3

Each line of JSON is a pair, whose posterior is written: mean and log-variance.
--target='' encodes prompts alone, by their prior; of a VAE, texts. The
templates are to be those that the model was trained with.
"""

import collections
import logging

from absl import flags

from ctrl_jax import command, errors, loading, saved_latents
from ctrl_jax.data import documents, files
from ctrl_jax.data.sources import Source

_LOG = logging.getLogger("ctrl_jax.encode")

FLAGS = flags.FlagValues()
_MODEL = flags.DEFINE_string(
    "model", None, "The workdir of a CVAE, or its export.", flag_values=FLAGS
)
_INPUT = flags.DEFINE_list(
    "input", [], "JSON lines, also packed; globs.", flag_values=FLAGS
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "The .npz file to write.", flag_values=FLAGS
)
_TEMPLATE = flags.DEFINE_string(
    "template", "{prompt}\n", "Of a prompt, its separator included.",
    flag_values=FLAGS,
)
_TARGET = flags.DEFINE_string(
    "target", "{text}", "Template of a text; empty for prompts alone.",
    flag_values=FLAGS,
)
_ID = flags.DEFINE_string(
    "id", "", "Template of a latent's name; empty numbers them from 0.",
    flag_values=FLAGS,
)
_CODE = flags.DEFINE_string(
    "code", "", "Control code of all; empty: none.", flag_values=FLAGS
)
_MAX_TEXTS = flags.DEFINE_integer(
    "max_texts", 0, "The first so many; 0 for all.", lower_bound=0,
    flag_values=FLAGS,
)


def read_items(source: Source) -> tuple[list, list[str]]:
  """Returns what `LanguageModel.encode` takes, and a name for each.

  Args:
    source: of pairs, or of prompts without a target; its attribute is the
      name.

  Raises:
    errors.UserError: no text, a pair without one, or two of one name.
  """
  items, names = [], []
  for number, document in enumerate(documents.read(source)):
    if document.is_pair and document.is_empty:
      raise errors.UserError(
          f"Pair {number + 1} in {', '.join(source.path)} has no text behind"
          f" its prompt {document.prompt[:40]!r}: take it out, or encode"
          " prompts alone with --target=''."
      )
    pair = (document.prompt, document.text)
    items.append(pair if document.is_pair else document.text)
    names.append(document.attribute if source.attribute else str(number))
  if not items:
    raise errors.UserError(f"There is nothing in {', '.join(source.path)}.")
  counts = collections.Counter(names)
  twice = [name for name in names if counts[name] > 1][:1]
  if twice:
    raise errors.UserError(
        f"Two texts have the name {twice[0]!r}: choose another --id."
    )
  return items, names


def main() -> None:
  """Runs the command."""
  for name, value in (
      ("model=WORKDIR", _MODEL.value), ("input=FILE", _INPUT.value),
      ("output=FILE.npz", _OUTPUT.value),
  ):
    if not value:
      raise errors.UserError(f"From what to where? Give --{name}.")
  if not _OUTPUT.value.endswith(".npz"):
    raise errors.UserError(
        f"--output={_OUTPUT.value!r} must end with .npz, as --latent wants it."
    )
  source = Source(
      "jsonl", _CODE.value, tuple(_INPUT.value), _TEMPLATE.value,
      _TARGET.value, attribute=_ID.value, max_documents=_MAX_TEXTS.value,
  )
  items, names = read_items(source)
  model = loading.load(_MODEL.value)
  mean, log_variance = model.encode(items, _CODE.value or None)
  file = files.expand(_OUTPUT.value)
  saved_latents.SavedLatents(
      tuple(names), mean, log_variance, saved_latents.model_hash(model)
  ).save(file)
  _LOG.info("%d latents in %s.", len(names), file)


if __name__ == "__main__":
  command.run(main, FLAGS, __doc__)
