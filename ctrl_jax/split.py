"""Splits a file of records into train, validation and test, once and for all.

  python -m ctrl_jax.split --output=data/stories \\
      --input='$CTRL_JAX_DATA/stories/reddit_title_story.jsonl.gz' \\
      --prompt='{prompt}' --text='{story}'

Several data sets that read the same files then agree on what is held out, and a
base can leave it out (`data.exclude`). Writes train, validation and
test.jsonl.gz with the fields `prompt` and `text`; a record goes where the hash
of its text says (or of --by, to agree with a data set that has another
template), and each text is kept once. --min_words=230 leaves shorter texts out,
which changes nothing about where the others go. --train_share=0,0.5 trains on
what a data set with this `data.share` has, and no other. --outline=8 adds a
field `outline`, the first 8 key phrases of the text, to ask for a story by
(configs/stories_baselines.py:outline).
"""

import gzip
import json
import logging
import pathlib

from absl import flags

from ctrl_jax import command, errors
from ctrl_jax.data import documents, files, rake, sources, templates
from ctrl_jax.evaluation import output

_LOG = logging.getLogger("ctrl_jax.split")

FLAGS = flags.FlagValues()
_INPUT = flags.DEFINE_list(
    "input", [], "JSON lines, also packed; globs.", flag_values=FLAGS
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Folder to write to.", flag_values=FLAGS
)
_PROMPT = flags.DEFINE_string(
    "prompt", "{prompt}", "Template of the prompt.", flag_values=FLAGS
)
_TEXT = flags.DEFINE_string(
    "text", "{text}", "Template of the text.", flag_values=FLAGS
)
_BY = flags.DEFINE_string(
    "by", "", "Template of what is hashed; empty: the text.", flag_values=FLAGS
)
_OUTLINE = flags.DEFINE_integer(
    "outline", 0, "Key phrases a text.", lower_bound=0, flag_values=FLAGS
)
_MIN_WORDS = flags.DEFINE_integer(
    "min_words", 0, "Words of a text at least.", lower_bound=0,
    flag_values=FLAGS,
)
_TRAIN_SHARE = flags.DEFINE_list(
    "train_share", ["0", "1"], "Of training texts, by hash: from, to.",
    flag_values=FLAGS,
)
_VALIDATION = flags.DEFINE_float(
    "validation_fraction", 0.05, "Share of texts.", flag_values=FLAGS
)
_TEST = flags.DEFINE_float(
    "test_fraction", 0.05, "Share of texts.", flag_values=FLAGS
)
_SEED = flags.DEFINE_integer(
    "seed", 0, "Salt of the hash.", flag_values=FLAGS
)


def split(
    paths: tuple[str, ...],
    folder,
    *,
    prompt: str = "{prompt}",
    text: str = "{text}",
    by: str = "",
    validation: float = 0.05,
    test: float = 0.05,
    seed: int = 0,
    outline: int = 0,
    min_words: int = 0,
    train_share: tuple[float, float] = (0.0, 1.0),
) -> dict[str, int]:
  """Splits records; the files appear whole, one after the other.

  Args:
    paths: files of JSON lines, or globs; may hold $VARIABLES.
    folder: where to.
    prompt: template of a record's fields, see `data.templates`.
    text: the same.
    by: the same; its hash decides. "" for the text's.
    validation: share of texts.
    test: share of texts.
    seed: salt of the hash.
    outline: how many key phrases of a text at most, the first of
      `data.rake.outline`, become the field `outline`; 0 for no such field.
    min_words: texts with fewer words, by white space, are left out.
    train_share: which part of the training texts, as `data.share`: a model of
      another share has not read them.

  Returns:
    How many records each split has.

  Raises:
    errors.UserError: a file that cannot be read, a field that is missing, no
      record with a text, or shares that cannot be.
  """
  splitter = documents.Splitter(seed, validation, test)
  documents.check_share(train_share, "train_share")
  source = sources.Source("jsonl", "", tuple(paths))
  lines = {name: [] for name in sources.SPLITS}
  seen = set()
  for record in sources.records(source):
    front, body, hashed = (
        templates.render(template, record.fields, record.where)
        for template in (prompt, text, by)
    )
    front, body = front.strip(), body.strip()
    if not body or body in seen or len(body.split()) < min_words:
      continue
    seen.add(body)
    digest = splitter.digest(hashed or body)
    name = splitter.split(source, digest)
    if name == "train" and not splitter.is_in(digest, train_share):
      continue
    row = dict(prompt=front, text=body)
    if outline:
      row["outline"] = rake.outline(body)[:outline]
    lines[name].append(json.dumps(row, ensure_ascii=False) + "\n")
  if not seen:
    least = f" of at least {min_words} words" if min_words else ""
    raise errors.UserError(
        f"No record of {', '.join(paths)} has a text{least}."
    )
  for name, rows in lines.items():
    file = pathlib.Path(folder) / f"{name}.jsonl.gz"
    # No time stamp: the same records are the same file.
    packed = gzip.compress("".join(rows).encode(), 6, mtime=0)
    output.write_bytes(file, packed)
  return {name: len(rows) for name, rows in lines.items()}


def _share(values: list[str]) -> tuple[float, ...]:
  try:
    return tuple(map(float, values))
  except ValueError as e:
    raise errors.UserError(
        f"--train-share={','.join(values)} must be two numbers, as"
        " --train-share=0,0.5."
    ) from e


def main() -> None:
  """Runs the command."""
  if not _INPUT.value or not _OUTPUT.value:
    raise errors.UserError("From where to where? Give --input and --output.")
  folder = files.expand(_OUTPUT.value)
  counts = split(
      tuple(_INPUT.value), folder, prompt=_PROMPT.value, text=_TEXT.value,
      by=_BY.value, validation=_VALIDATION.value, test=_TEST.value,
      seed=_SEED.value, outline=_OUTLINE.value, min_words=_MIN_WORDS.value,
      train_share=_share(_TRAIN_SHARE.value),
  )
  _LOG.info(
      "%s records in %s.",
      ", ".join(f"{n:,} {name}" for name, n in counts.items()), folder,
  )


if __name__ == "__main__":
  command.run(main, FLAGS, __doc__)
