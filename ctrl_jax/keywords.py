"""Sentences in, (keyword, prefix, continuation that holds it) out.

  python -m ctrl_jax.keywords --config=configs/domains.py \\
      --keywords=markers.txt --output=data/keywords
  python -m ctrl_jax.keywords --output=data/keywords \\
      --triples='$CTRL_JAX_DATA/keywords/marker_sentences.jsonl.gz'

The first looks for an inventory's keywords (one a line) in the sources of a
configuration and splits by document, as `prepare` does with the same
configuration. The second takes triples that are there already and checks each;
with --within=configs/auxiliary_base.py it keeps, of those that are no test
triples, the ones of that configuration's training documents: sentences that no
other model has read, which is to judge samples. Both write train, validation
and test.jsonl.gz and manifest.json.
"""

import dataclasses
import json
import logging
import pathlib
import sys

import tqdm
from absl import flags
from ml_collections import config_flags

from ctrl_jax import command, errors
from ctrl_jax import config as config_lib
from ctrl_jax.data import (
  documents,
  files,
  keyword_candidates,
  keyword_sets,
  replace,
  sources,
)
from ctrl_jax.data import keywords as keywords_lib

_LOG = logging.getLogger("ctrl_jax.keywords")
_LENGTHS = keywords_lib.Lengths()
_LIMITS = keyword_sets.Limits()

FLAGS = flags.FlagValues()
_CONFIG = command.define_config(FLAGS)
_KEYWORDS = flags.DEFINE_string(
    "keywords", "", "The inventory: a file with one keyword a line.",
    flag_values=FLAGS,
)
_TRIPLES = flags.DEFINE_list(
    "triples", [],
    "Files of ready rows `keyword`, `prefix` and `text` (the whole sentence).",
    flag_values=FLAGS,
)
_WITHIN = config_flags.DEFINE_config_file(
    "within", None,
    "With --triples: a base's configuration, whose training documents all but"
    " the test triples are to be of.",
    flag_values=FLAGS,
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Folder of the set.", flag_values=FLAGS
)
_DROP_COMMAS = flags.DEFINE_bool(
    "drop_commas", False, "Take the keyword `however,` for `however`.",
    flag_values=FLAGS,
)
_FORCE = flags.DEFINE_bool(
    "force", False, "Make the set again.", flag_values=FLAGS
)
_LENGTH_FLAGS = {
    name: flags.DEFINE_integer(
        f"{name}_words", default, f"Words of a {what}, at {bound}.",
        flag_values=FLAGS,
    )
    for name, default, what, bound in (
        ("min_prefix", _LENGTHS.min_prefix, "prefix", "least"),
        ("max_prefix", _LENGTHS.max_prefix, "prefix", "most"),
        ("min_sentence", _LENGTHS.min_sentence, "sentence", "least"),
        ("max_sentence", _LENGTHS.max_sentence, "sentence", "most"),
    )
}
_MAX_PER_KEYWORD = flags.DEFINE_integer(
    "max_per_keyword", _LIMITS.max_per_keyword,
    "Triples a keyword and split at most; 0 keeps all, in memory.",
    flag_values=FLAGS,
)
_TEST_PER_KEYWORD = flags.DEFINE_integer(
    "test_per_keyword", _LIMITS.test_per_keyword,
    "Exactly so many test triples a keyword, none of rarer ones; 0: as it is.",
    flag_values=FLAGS,
)
_MIN_TRAIN = flags.DEFINE_integer(
    "min_train", _LIMITS.min_train,
    "Keywords with fewer training triples are left out.", flag_values=FLAGS,
)


def make(
    output,
    *,
    config=None,
    keywords: str = "",
    triples: tuple[str, ...] = (),
    within=None,
    drop_commas: bool = False,
    lengths: keywords_lib.Lengths = _LENGTHS,
    limits: keyword_sets.Limits = _LIMITS,
    force: bool = False,
) -> keyword_sets.KeywordSet:
  """Makes a set of keyword triples, unless it is there already.

  Args:
    output: its folder.
    config: a configuration as `ctrl_jax.config.default` makes; its section
      `data` says the sources (without `triples`), seed and fractions of the
      splits. None for the default's.
    keywords: file with the inventory; may be "" with `triples`: then every
      keyword of theirs is in it.
    triples: files of ready rows, instead of the sources.
    within: configuration of a base; its training documents are what all but the
      test triples are to be of, see `keyword_candidates.within`. None: no
      matter.
    drop_commas: see `Inventory.read`.
    lengths: bounds on prefix and sentence; ready rows keep theirs.
    limits: how many triples.
    force: make it again, and replace one of other settings.

  Raises:
    errors.UserError: bad input; nothing is left behind.

  Example:

  >>> made = make("data/keywords", triples=("rows.jsonl",))  # doctest: +SKIP
  >>> made.read("test")[0]  # doctest: +SKIP
  Triple(keyword='soon', prefix='Now lead the', text=' way, and we shall soon'
      ' see.', document='0f3a...')
  """
  if not triples and config is None:
    raise errors.UserError(
        "Which text? Give --config=configs/domains.py for its sources, or"
        " --triples=FILE for ready triples."
    )
  if not triples and not keywords:
    raise errors.UserError(
        "Which keywords? Give --keywords=FILE, with one a line."
    )
  folder = pathlib.Path(files.expand(str(output)))
  config = config or config_lib.default()
  inventory = None
  if keywords:
    inventory = keywords_lib.Inventory.read(keywords, drop_commas=drop_commas)
  if within is not None and not triples:
    raise errors.UserError(
        "--within is for ready triples: sentences of --config are split by"
        " document, as its data set is. Leave it out."
    )
  settings = _settings(config, inventory, triples, within, lengths, limits)
  replace.check(folder, keyword_sets.KIND)
  if not force and (existing := _existing(folder, settings)):
    _LOG.info("The set is there already: %s (--force makes it again)", folder)
    return existing
  found = _candidates(config.data, inventory, triples, within, lengths)
  interval = 0.2 if sys.stderr.isatty() else 10
  bar = tqdm.tqdm(found, unit=" sentences", mininterval=interval)
  return keyword_sets.write(folder, bar, limits, settings)


def _candidates(data, inventory, triples, within, lengths):
  """Yields a candidate for each sentence of the sources, or each ready row."""
  splitter = _splitter(data)
  if not triples:
    return keyword_candidates.from_sources(
        _sources(data), inventory, lengths, splitter
    )
  found = keyword_candidates.from_triples(triples, inventory, splitter)
  if within is None:
    return found
  base = within.data
  return keyword_candidates.within(
      found, _sources(base), _splitter(base), tuple(base.share)
  )


def _splitter(data) -> documents.Splitter:
  return documents.Splitter(
      data.seed, data.validation_fraction, data.test_fraction
  )


def _sources(data) -> tuple[sources.Source, ...]:
  if not data.sources:
    raise errors.UserError("data.sources is empty: there is no text.")
  return tuple(map(sources.Source.from_config, data.sources))


def _settings(config, inventory, triples, within, lengths, limits) -> dict:
  """Returns what decides a set's content, as JSON gives it back."""
  data = config.data.to_dict()
  names = ("seed", "validation_fraction", "test_fraction")
  settings = {name: data[name] for name in names}
  if triples:
    settings["triples"] = list(triples)
    if within is not None:
      names = ("sources", "share", "seed", "validation_fraction",
               "test_fraction")
      data = within.data.to_dict()
      settings["within"] = {name: data[name] for name in names}
  else:
    settings["sources"] = data["sources"]
    settings["lengths"] = dataclasses.asdict(lengths)
  settings["inventory"] = inventory and inventory.keywords
  settings["limits"] = dataclasses.asdict(limits)
  return json.loads(json.dumps(settings))


def _existing(folder: pathlib.Path, settings: dict):
  """Returns the set of these settings that is there, or None."""
  if not (folder / keyword_sets.FILE).exists():
    return None
  existing = keyword_sets.KeywordSet.load(folder)
  if existing.settings == settings:
    return existing
  names = sorted({*existing.settings, *settings})
  changed = [
      n for n in names if existing.settings.get(n) != settings.get(n)
  ]
  raise errors.UserError(
      f"The keyword set in {str(folder)!r} was made with other settings:"
      f" {', '.join(changed)}. Choose another --output, or replace it with"
      " --force."
  )


def main() -> None:
  """Runs the command."""
  if not _OUTPUT.value:
    raise errors.UserError("Where to? Give --output=FOLDER.")
  given = [n for n in _LENGTH_FLAGS if FLAGS[f"{n}_words"].present]
  if _TRIPLES.value and given:
    raise errors.UserError(
        f"--{given[0].replace('_', '-')}-words is for sentences of --config:"
        " ready triples keep their lengths. Leave it out."
    )
  made = make(
      _OUTPUT.value,
      config=_CONFIG.value,
      keywords=_KEYWORDS.value,
      triples=tuple(_TRIPLES.value),
      within=_WITHIN.value,
      drop_commas=_DROP_COMMAS.value,
      lengths=keywords_lib.Lengths(
          **{name: flag.value for name, flag in _LENGTH_FLAGS.items()}
      ),
      limits=keyword_sets.Limits(
          _MAX_PER_KEYWORD.value, _TEST_PER_KEYWORD.value, _MIN_TRAIN.value
      ),
      force=_FORCE.value,
  )
  print(made.report())


if __name__ == "__main__":
  command.run(main, FLAGS, __doc__)
