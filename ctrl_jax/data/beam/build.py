"""Sources -> a whole data set in a folder, on many machines.

The same records, texts and hash as `ctrl_jax.data.build` makes on one.
"""

import contextlib
import io
import os
import pathlib
import re
from collections.abc import Iterator

import tensorflow_datasets as tfds
from apache_beam.options import pipeline_options

from ctrl_jax import errors
from ctrl_jax import text as text_lib
from ctrl_jax.data import build as one_machine
from ctrl_jax.data import manifest as manifest_lib
from ctrl_jax.data import records
from ctrl_jax.data.beam import builder as builder_lib
from ctrl_jax.data.beam import check, documents, options, summary
from ctrl_jax.data.settings import Settings
from ctrl_jax.data.sources import SPLITS


def build(
    folder: pathlib.Path,
    work,
    settings: Settings,
    tokenizer: text_lib.Tokenizer,
    beam_options: pipeline_options.PipelineOptions,
    config: dict,
) -> list:
  """Makes a data set but for its shards, which stay in `work`.

  Args:
    folder: for all else, on this machine; empty.
    work: a path of etils that all machines reach.
    settings: what the data set is made of.
    tokenizer: knows all the codes.
    beam_options: of Beam, the runner among them.
    config: stored in the manifest.

  Returns:
    The paths of the shards.

  Raises:
    errors.UserError: bad input, or a source or split that yields nothing.
  """
  settings = documents.expanded(settings)
  builder = builder_lib.Builder(settings, tokenizer, work)
  download_config = tfds.download.DownloadConfig(beam_options=beam_options)
  with options.naming_errors(), _naming_empty_splits():
    tfds.disable_progress_bar()
    # It tells of a folder that is about to vanish.
    with contextlib.redirect_stdout(io.StringIO()):
      builder.download_and_prepare(download_config=download_config)
    shards = _shards(builder.info.splits)
    hashes, files = check.check(shards, settings, beam_options, work)
  found = summary.read(settings, work / "summary")
  infos = _infos(settings, tokenizer, found)
  no_records = records.content_hash(0)
  records.write_info(
      folder, settings.sequence_length + 1,
      _split_infos(builder.info.splits, folder), settings.attribute_length,
  )
  summary.write_texts(settings, work / "summary", folder / "documents")
  tokenizer.save(folder / "tokenizer")
  one_machine.manifest(
      folder, settings, tokenizer, infos,
      {split: hashes.get(split, no_records) for split in SPLITS},
      found.attributes, config, files,
  ).save()
  return [file for _, _, file in shards]


@contextlib.contextmanager
def _naming_empty_splits() -> Iterator[None]:
  """tensorflow-datasets writes no split without records."""
  try:
    yield
  except Exception as e:
    match = re.search(r"is 0 for split (\w+)\. This should be >0", str(e))
    if not match:
      raise
    split = match[1]
    fewer = f" set data.{split}_fraction=0," if split != "train" else ""
    raise errors.UserError(
        f"There are no sequences for the split {split!r}: add documents,{fewer}"
        f" or leave {options.FLAG} out, which so small a data set has no need"
        " of."
    ) from e


def _shards(splits: tfds.core.splits.SplitDict) -> list[tuple[str, int, str]]:
  found = []
  for name, info in splits.items():
    start = 0
    for path, length in zip(info.filepaths, info.shard_lengths, strict=True):
      found.append((name, start, os.fspath(path)))
      start += length
  return found


def _split_infos(splits, folder: pathlib.Path) -> list:
  """Returns the splits, lying in another folder."""
  return [
      splits[name].replace(
          filename_template=splits[name].filename_template.replace(
              data_dir=folder
          )
      )
      for name in SPLITS if name in splits
  ]


def _infos(
    settings: Settings, tokenizer: text_lib.Tokenizer, found: summary.Summary
) -> list[manifest_lib.SourceInfo]:
  infos, ends = [], dict.fromkeys(SPLITS, 0)
  for i, source in enumerate(settings.sources):
    counts, ranges = found.counts[i], {}
    for split in SPLITS:
      start = ends[split]
      ends[split] += counts[split].sequences
      ranges[split] = start, ends[split]
    infos.append(
        one_machine.source_info(
            source, one_machine.code_ids_of(tokenizer, source), counts,
            one_machine.NONE_DROPPED | found.dropped[i], ranges,
        )
    )
  return infos
