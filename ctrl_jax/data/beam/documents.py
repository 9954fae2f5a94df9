"""The documents of all sources, each once, in pieces of work for many machines.

Letters of tuples: a place is (source, part, number), the order in which one
machine would read: index of the source, of its file, of the document in it.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import apache_beam as beam
from apache_beam import pvalue

from ctrl_jax import errors
from ctrl_jax.data import buckets, documents, files
from ctrl_jax.data.beam import options
from ctrl_jax.data.selection import Selection
from ctrl_jax.data.settings import Settings
from ctrl_jax.data.sources import Source

# Kinds whose paths are no files, or belong together. All others read one file
# after another.
_WHOLE = ("docs", "parallel", "tfds")

# Outputs beside the documents.
DROPPED = "dropped"  # (index of the source, reason)
ATTRIBUTE = "attribute"  # Of a training document.


def parts(source: Source) -> list[tuple[str, ...]]:
  """Cuts a source into the paths of sources that together are it, in order.

  A file each where the kind allows it. A source with `max_documents` is one
  part, since what comes before must be counted. Other machines have other
  variables, so that there are none in the paths.

  Raises:
    errors.UserError: there is no such file, or the source holds sequences.
  """
  if source.kind == "tfrecords":
    raise errors.UserError(
        f"Source {source.name!r} holds sequences, which Beam is of no use for:"
        " leave --beam_pipeline_options out, or train on the files as they are"
        " (config.data.tfrecords)."
    )
  if source.kind in _WHOLE or source.max_documents:
    return [tuple(map(files.expand, source.path))]
  found = files.find(source.path)
  for file in found:
    if "$" in file or file.startswith("~"):
      raise errors.UserError(
          f"{file!r}: with Beam no file's name may hold a $ or begin with ~."
          " Rename it."
      )
  return [(file,) for file in found]


def expanded(settings: Settings) -> Settings:
  """Returns settings for other machines: no variables, plain dicts."""
  return dataclasses.replace(
      settings,
      exclude=tuple(map(files.expand, settings.exclude)),
      sources=tuple(
          dataclasses.replace(s, options=dict(s.options))
          for s in settings.sources
      ),
  )


def check_is_reachable(settings: Settings, folder: str, runner: str) -> None:
  """Refuses files of this machine that other machines would read or write.

  Args:
    settings: what the data set is made of.
    folder: where to.
    runner: name of Beam's runner.

  Raises:
    errors.UserError: a path is on this machine alone.
  """
  if runner != options.DATAFLOW:  # The others may share a file system.
    return
  settings = expanded(settings)
  paths = [folder, *settings.exclude]
  for source in settings.sources:
    if source.kind not in ("docs", "tfds"):
      paths += map(files.expand, source.path)
  for path in paths:
    if not buckets.is_remote(path):
      raise errors.UserError(
          f"{path!r} is on this machine, and {runner} works on others: copy it"
          " to a bucket (gs://...) and name that."
      )


def read(settings: Settings) -> beam.PTransform:
  """Returns a transform: pipeline -> (place, digest, document), all of them.

  Elements are keyed: (hash of what duplicates share, (place, digest,
  document)). Empty documents and those of other shares are left out.

  Outputs: `documents`, DROPPED.
  """
  return work(settings, range(len(settings.sources))) | "Read" >> beam.ParDo(
      _Read(settings)
  ).with_outputs(DROPPED, main="documents")


def work(settings: Settings, indices: Iterable[int]) -> beam.PTransform:
  """Returns a transform: pipeline -> (index of a source, of its part, paths).

  Args:
    settings: what the data set is made of.
    indices: of the sources to read.
  """
  found = [
      (i, j, path)
      for i in indices for j, path in enumerate(parts(settings.sources[i]))
  ]
  # So that each is a piece of work by itself.
  return "Parts" >> beam.Create(found) | "Spread" >> beam.Reshuffle()


class WithSelection(beam.DoFn):
  """Makes the `Selection` on the machine that needs it."""

  def __init__(self, settings: Settings):
    self._settings = settings

  def setup(self):
    self._selection = Selection(self._settings)


class _Read(WithSelection):

  def process(self, work: tuple[int, int, tuple[str, ...]]) -> Iterator:
    source, part, path = work
    reader = dataclasses.replace(self._settings.sources[source], path=path)
    for number, document in enumerate(documents.read(reader)):
      digest = self._selection.digest(document)
      if reason := self._selection.before(document, digest):
        yield pvalue.TaggedOutput(DROPPED, (source, reason))
      else:
        place = source, part, number
        key = self._selection.identity(document)
        yield key, (place, digest, document)


def select(found, settings: Settings):
  """Leaves out duplicates and what `Selection.after` does.

  Args:
    found: keyed documents, from `read`.
    settings: what the data set is made of.

  Returns:
    The outputs `documents`, (split, place, digest, document), DROPPED and
    ATTRIBUTE.
  """
  first = (
      found
      | "Group duplicates" >> beam.GroupByKey()
      | "First" >> beam.FlatMap(_first).with_outputs(DROPPED, main="documents")
  )
  chosen = first.documents | "Select" >> beam.ParDo(
      _Select(settings)
  ).with_outputs(DROPPED, ATTRIBUTE, main="documents")
  return first[DROPPED], chosen


def _first(group: tuple[bytes, Iterable[tuple]]) -> Iterator:
  """Yields the document that one machine would have read first."""
  first = None
  for found in group[1]:  # Once: there may be more than memory holds.
    if first is None:
      first = found
      continue
    later = max(first, found, key=lambda f: f[0])
    first = min(first, found, key=lambda f: f[0])
    yield pvalue.TaggedOutput(DROPPED, (later[0][0], "duplicate"))
  yield first


class _Select(WithSelection):

  def process(self, found: tuple) -> Iterator:
    place, digest, document = found
    source = self._settings.sources[place[0]]
    split, reason = self._selection.after(source, document, digest)
    if split == "train":
      yield pvalue.TaggedOutput(ATTRIBUTE, document.attribute)
    if reason:
      yield pvalue.TaggedOutput(DROPPED, (place[0], reason))
    else:
      yield split, place, digest, document
