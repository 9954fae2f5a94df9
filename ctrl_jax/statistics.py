"""Sources in, a table of their texts out.

  python -m ctrl_jax.statistics --config=configs/domains.py

Prints for each source of a configuration how many texts there are in each
split and how long prompts and texts are on average, in words, tokens and
paragraphs. Exact duplicates and empty texts are left out, as `prepare` does.
Tokens are counted with --tokenizer, or with what `prepare` made or loads for
this configuration; where there is neither, there are no such columns.
"""

import logging
import pathlib
import sys

import tqdm
from absl import flags

from ctrl_jax import command, errors, text
from ctrl_jax.data import buckets, documents, files, manifest, sources
from ctrl_jax.data import statistics as statistics_lib
from ctrl_jax.evaluation import output

_LOG = logging.getLogger("ctrl_jax.statistics")

FLAGS = flags.FlagValues()
_CONFIG = command.define_config(FLAGS)
_TOKENIZER = flags.DEFINE_string(
    "tokenizer", "", "Folder of the tokenizer to count with.", flag_values=FLAGS
)
_OUTPUT = flags.DEFINE_string(
    "output", "", "A JSON file to write the numbers to, too.", flag_values=FLAGS
)


def find_tokenizer(config, folder: str = ""):
  """Returns the tokenizer to count with, None where there is none yet.

  Args:
    config: the configuration.
    folder: a tokenizer's folder; "" for the prepared data set's, or else the
      one that `config.tokenizer.path` names.

  Raises:
    errors.UserError: the folder holds no tokenizer.
  """
  if folder:
    return text.load_tokenizer(files.expand(folder))
  folder = files.expand(config.data.folder)
  prepared = pathlib.Path(folder) / "tokenizer"
  if buckets.is_remote(folder) and manifest.exists(folder):
    prepared = manifest.Manifest.load(folder).tokenizer_folder
  if text.has_tokenizer(prepared):
    return text.load_tokenizer(prepared)
  if config.tokenizer.path:
    return text.load_tokenizer(files.expand(config.tokenizer.path))
  return None


def main() -> None:
  """Runs the command."""
  config = _CONFIG.value
  if config is None:
    raise errors.UserError(
        "Which texts? Give a configuration: --config=configs/domains.py"
    )
  all_sources = tuple(map(sources.Source.from_config, config.data.sources))
  if not all_sources:
    raise errors.UserError("data.sources is empty: there is no text.")
  tokenizer = find_tokenizer(config, _TOKENIZER.value)
  if tokenizer is None:
    _LOG.info("No tokens are counted: prepare first, or give --tokenizer.")
  splitter = documents.Splitter(
      config.data.seed, config.data.validation_fraction,
      config.data.test_fraction,
  )
  interval = 0.2 if sys.stderr.isatty() else 10
  with tqdm.tqdm(unit=" texts", mininterval=interval) as bar:
    found = statistics_lib.collect(
        all_sources, splitter, tokenizer, lambda name: bar.update()
    )
  if _OUTPUT.value:
    output.write_json(
        files.expand(_OUTPUT.value),
        {
            name: dict(
                texts=one.texts, splits=one.splits, pairs=one.prompts,
                mean=one.means(),
            )
            for name, one in found.items()
        },
    )
  print(statistics_lib.table(found, with_tokens=tokenizer is not None))


if __name__ == "__main__":
  command.run(main, FLAGS, __doc__)
