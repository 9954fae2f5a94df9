"""Text in, training records out.

  python -m ctrl_jax.prepare --config=configs/demo.py

Reads the sources of the configuration, learns (or loads) the tokenizer and
writes the data set's folder, `config.data.folder`; both may be in a bucket,
gs://... A second run with the same configuration does nothing; --force makes
the data set again; --verify reads it and compares checksums. Fields can be
overridden: --config.data.workers=2.
"""

import functools
import logging
import os
import pathlib
import sys

import tqdm
from absl import flags
from etils import epath

from ctrl_jax import command, errors, text
from ctrl_jax.data import build, existing, files, learning, sources
from ctrl_jax.data import manifest as manifest_lib
from ctrl_jax.data import settings as settings_lib

_LOG = logging.getLogger("ctrl_jax.prepare")

_MEND = "replace it with --force"

FLAGS = flags.FlagValues()
_CONFIG = command.define_config(FLAGS)
_FORCE = flags.DEFINE_bool(
    "force", False, "Make the data set again.", flag_values=FLAGS
)
_VERIFY = flags.DEFINE_bool(
    "verify", False, "Check the data set that is there.", flag_values=FLAGS
)
_BEAM = flags.DEFINE_string(
    "beam_pipeline_options", "",
    "Make the data set on Apache Beam (the extra `beam`): options between"
    " commas, the runner among them, as \"runner=DirectRunner,"
    "direct_running_mode=multi_processing,direct_num_workers=8\" or"
    " \"runner=DataflowRunner,project=P,region=R,temp_location=gs://...\".",
    flag_values=FLAGS,
)


def prepare(
    config, force: bool = False, beam_pipeline_options: str = ""
) -> manifest_lib.Manifest:
  """Makes the data set of a configuration, unless it is there already.

  With more than one worker a script must call this under
  `if __name__ == "__main__":`.

  Args:
    config: a configuration as `ctrl_jax.config.default` makes; its sections
      `data` and `tokenizer` are read.
    force: make it again, and replace one of another configuration.
    beam_pipeline_options: makes it on Apache Beam, see the flag.

  Returns:
    The manifest of the data set.

  Raises:
    errors.UserError: bad input; nothing is left behind.
  """
  if config.data.tfrecords:
    raise errors.UserError(
        "data.tfrecords are read by `train` as they are: there is nothing to"
        " prepare. (config.source(\"tfrecords\", ...) prepares such files.)"
    )
  folder = files.expand(config.data.folder)
  stored = existing.identity(config)
  if not force and (found := existing.find(folder, stored, _MEND)):
    _LOG.info(
        "The data set is there already: %s (--force reads the sources again)",
        folder,
    )
    return found
  existing.check(folder)
  settings = _settings(config)
  if config.data.workers < 0:
    raise errors.UserError(
        f"data.workers={config.data.workers} must be 0 (one a core) or more."
    )
  if beam_pipeline_options:
    return _on_beam(config, folder, settings, stored, beam_pipeline_options)
  with existing.replacing(folder) as partial, _Bar() as bar:
    tokenizer = _tokenizer(config.tokenizer, settings, bar)
    build.build(
        partial,
        settings,
        tokenizer,
        config.data.workers or os.cpu_count() or 1,
        stored,
        bar.start("Tokenizing"),
    )
  return manifest_lib.Manifest.load(folder)


def _on_beam(config, folder: str, settings, stored: dict, options_text: str):
  from ctrl_jax.data.beam import options  # It says what to install.

  options_ = options.parse(options_text)
  from ctrl_jax.data.beam import build as beam_build
  from ctrl_jax.data.beam import documents
  from ctrl_jax.data.beam import learning as beam_learning

  documents.check_is_reachable(settings, folder, options.runner(options_))

  def make(partial: pathlib.Path, work: epath.Path) -> list[str]:

    def sample(chars: int, shares: list[float]) -> list[str]:
      return beam_learning.sample(settings, chars, shares, options_, work)

    with _Bar() as bar:
      tokenizer = _tokenizer(config.tokenizer, settings, bar, sample)
    return beam_build.build(
        partial, work, settings, tokenizer, options_, stored
    )

  existing.gather(folder, make)
  return manifest_lib.Manifest.read(folder)


def report(manifest: manifest_lib.Manifest, folder: str = "") -> str:
  """Returns a table of what a data set holds and what was dropped.

  Args:
    manifest: the data set's.
    folder: where it lies, if not in `manifest.folder`.
  """
  rows = [(
      "source", "prior", "documents", "train", "valid.", "test", "tokens",
      "sequences", "unknown", "dropped",
  )]
  for s in manifest.sources:
    counts = s.splits.values()
    rows.append((
        s.name if len(s.name) <= 40 else s.name[:37] + "...",
        f"{manifest.prior[s.code]:.4f}",
        f"{s.documents_read:,}",
        *(f"{s.splits[split].documents:,}" for split in sources.SPLITS),
        f"{sum(c.tokens for c in counts):,}",
        f"{sum(c.sequences for c in counts):,}",
        f"{sum(c.unknown for c in counts):,}",
        _dropped(s),
    ))
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  lines = [
      "  ".join([
          row[0].ljust(widths[0]),
          *(v.rjust(w) for v, w in zip(row[1:-1], widths[1:-1], strict=True)),
          row[-1],
      ]).rstrip()
      for row in rows
  ]
  size = sum(f.bytes for f in manifest.files.values())
  records = ", ".join(
      f"{manifest.size(split):,} {split}" for split in sources.SPLITS
  )
  lines += [
      f"No {split} sequences: raise data.{split}_fraction, or add documents."
      for split in sources.SPLITS[1:] if not manifest.size(split)
  ]
  lines += _long_prompts(manifest)
  lines += [
      f"Sequences of {manifest.sequence_length}: {records}; vocabulary"
      f" {manifest.vocab_size:,}; {size / 1e6:.1f} MB in"
      f" {folder or manifest.folder}",
      f"Hash {manifest.hash}",
  ]
  return "\n".join(lines)


def _dropped(source: manifest_lib.SourceInfo) -> str:
  totals = {
      f"documents {reason}": count
      for reason, count in source.dropped_documents.items()
      if count
  }
  for counts in source.splits.values():
    for reason, count in counts.dropped_sequences.items():
      key = f"sequences {reason}"
      totals[key] = totals.get(key, 0) + count
  return ", ".join(f"{n:,} {reason}" for reason, n in totals.items()) or "none"


def _long_prompts(manifest: manifest_lib.Manifest) -> list[str]:
  """Says how many sequences of pairs are prompt alone, and how to mend it."""
  made_of = manifest.config.get("data", {}).get("sources", ())
  lines = []
  for info, source in zip(manifest.sources, made_of):
    count = sum(
        c.dropped_sequences.get("no_target", 0) for c in info.splits.values()
    )
    if source.get("target") and count:
      lines.append(
          f"{count:,} sequences of {info.name!r} are dropped for no_target: a"
          f" prompt fills them. {build.MEND_LONG_PROMPTS}"
      )
  return lines


def _settings(config) -> settings_lib.Settings:
  return settings_lib.Settings(
      sources=tuple(map(sources.Source.from_config, config.data.sources)),
      sequence_length=config.data.sequence_length,
      max_unknown=config.data.max_unknown,
      validation_fraction=config.data.validation_fraction,
      test_fraction=config.data.test_fraction,
      seed=config.data.seed,
      attribute_length=config.data.attribute_length,
      share=tuple(config.data.share),
      train_share=config.data.train_share,
      exclude=tuple(config.data.exclude),
      truncate=config.data.truncate,
  )


def _tokenizer(
    config, settings: settings_lib.Settings, bar: "_Bar", sample=None
) -> text.Tokenizer:
  if config.path:
    tokenizer = text.load_tokenizer(files.expand(config.path))
    tokenizer = tokenizer.with_codes(settings.codes)
  else:
    tokenizer = _learn(config, settings, bar, sample)
  if config.newlines:
    tokenizer = tokenizer.with_newlines(config.newlines)
  return tokenizer


def _learn(
    config, settings: settings_lib.Settings, bar: "_Bar", sample
) -> text.Tokenizer:
  from ctrl_jax.text import learn_bpe, sentencepiece

  kinds = ("sentencepiece", "fastbpe")
  if config.kind not in kinds:
    raise errors.UserError(
        f"tokenizer.kind={config.kind!r} cannot be learnt."
        f" {errors.nearest(config.kind, kinds)}"
    )
  for name in ("vocab_size", "num_merges"):
    if config[name] < 1:
      raise errors.UserError(
          f"tokenizer.{name}={config[name]} must be at least 1."
      )
  least = 0 if config.kind == "fastbpe" else 1
  if config.train_chars < least:
    raise errors.UserError(
        f"tokenizer.train_chars={config.train_chars} must be at least {least}"
        f" for kind {config.kind!r}."
    )
  shares = learning.shares(settings.sources, config.learn_from)
  if config.kind == "sentencepiece":
    sentencepiece.check_codes(settings.codes)  # Before all text is read.
  progress = bar.start("Sampling")
  if not config.train_chars:
    texts = (text for _, text in learning.texts(settings, shares, progress))
    return learn_bpe.train(texts, settings.codes, config.num_merges)
  if sample is None:
    sample = functools.partial(
        learning.sample, settings, progress=progress
    )
  sample = sample(config.train_chars, shares)
  if config.kind == "fastbpe":
    bar.note(f"Learning {config.num_merges:,} merges")
    return learn_bpe.train(sample, settings.codes, config.num_merges)
  bar.note(f"Learning {config.vocab_size:,} pieces")
  return sentencepiece.train(
      sample,
      settings.codes,
      vocab_size=config.vocab_size,
      model_type=config.model_type,
      character_coverage=config.character_coverage,
  )


class _Bar:
  """A progress bar over documents; a context manager."""

  def __enter__(self) -> "_Bar":
    # On a terminal a few times a second, in a log file now and then.
    interval = 0.2 if sys.stderr.isatty() else 10
    self._bar = tqdm.tqdm(unit=" documents", mininterval=interval)
    return self

  def __exit__(self, *exc_info) -> None:
    self._bar.close()

  def note(self, text: str) -> None:
    """Shows what is being done."""
    self._bar.set_description_str(text)

  def start(self, what: str) -> build.Progress:
    """Starts a pass over all documents."""
    # The first pass counts the documents of the second.
    self._bar.reset(total=self._bar.n or None)
    current = None

    def progress(source: sources.Source, count: int) -> None:
      nonlocal current
      if source is not current:
        current = source
        self.note(f"{what} {source.name[:40]}")
      self._bar.update()

    return progress


def main() -> None:
  """Runs the command."""
  config = _CONFIG.value
  if config is None:
    raise errors.UserError(
        "Which configuration? Give one: --config=configs/demo.py"
    )
  if _VERIFY.value:
    folder = files.expand(config.data.folder)
    manifest = manifest_lib.Manifest.read(folder)
    manifest.verify()
    print(f"{folder}: all {len(manifest.files)} files are as written.")
    return
  folder = files.expand(config.data.folder)
  print(report(prepare(config, _FORCE.value, _BEAM.value), folder))


if __name__ == "__main__":
  command.run(main, FLAGS, __doc__)
