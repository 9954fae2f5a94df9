"""What the machines tell the one that started them: counts, text, attributes.

Each part is written as JSON lines into files, which any runner can do.
"""

import dataclasses
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import apache_beam as beam
from apache_beam import pvalue
from etils import epath

from ctrl_jax.data import buckets, sequences, sources, texts
from ctrl_jax.data import documents as documents_lib
from ctrl_jax.data.inventory import Inventory
from ctrl_jax.data.settings import Settings

_FILES = 8  # Of each kind of value at most.
_TRAIN_TEXT, _HELD_OUT_TEXT = "train_text", "held_out_text"


class Summary(NamedTuple):
  """What is read back.

  Attributes:
    dropped: index of a source -> reason -> documents.
    counts: index of a source -> split -> what became of its documents.
    attributes: of the training documents, if they are an inventory.
  """

  dropped: list[dict[str, int]]
  counts: list[dict[str, sequences.Counts]]
  attributes: tuple[str, ...]


def write(dropped, documents, attributes, counts, settings, folder) -> None:
  """Adds what writes the summary to a pipeline.

  Args:
    dropped: (index of a source, reason) each.
    documents: (split, place, digest, document) each.
    attributes: of training documents.
    counts: ((index of a source, split), Counts) each.
    settings: what the data set is made of.
    folder: where to, a path of etils.
  """
  kept = documents | "Kept" >> beam.Map(lambda d: ((d[1][0], d[0]), 1))
  text = documents | "Text" >> beam.ParDo(_Texts(settings)).with_outputs(
      _TRAIN_TEXT, main=_HELD_OUT_TEXT
  )
  for name, values in dict(
      dropped=(
          dropped
          | "Drop" >> beam.Map(lambda key: (key, 1))
          | "Sum of dropped" >> beam.CombinePerKey(sum)
      ),
      kept=kept | "Sum of kept" >> beam.CombinePerKey(sum),
      counts=(
          counts
          | "Sum of counts" >> beam.CombinePerKey(sequences.total)
          | "Counts" >> beam.MapTuple(lambda k, c: (k, dataclasses.asdict(c)))
      ),
      attributes=attributes | "Inventory" >> beam.CombineGlobally(
          Merged(Inventory, Inventory.attributes)
      ),
      train=text[_TRAIN_TEXT] | "Sample" >> beam.CombinePerKey(
          Merged(texts.sample, documents_lib.Sample.texts)
      ),
      held_out=text[_HELD_OUT_TEXT],
  ).items():
    save(values, folder / name)


def save(values, prefix: epath.Path) -> None:
  """Writes values as JSON lines into files whose names begin with `prefix`."""
  name = f"Write {prefix.name}"
  _ = (
      values
      | f"{name}: lines" >> beam.Map(_line)
      | f"{name}: files" >> beam.GroupByKey()
      | name >> beam.MapTuple(_Lines(prefix).write)
  )


def _line(value) -> tuple[int, str]:
  """Returns the number of the value's file, and its line."""
  line = json.dumps(value)
  return zlib.crc32(line.encode()) % _FILES, line


class _Lines:
  """Writes a file anywhere: Beam's own sinks ask for other libraries."""

  def __init__(self, prefix: epath.Path):
    self._prefix = str(prefix)

  def write(self, number: int, lines: Iterable[str]) -> None:
    file = epath.Path(f"{self._prefix}-{number}.jsonl")
    with buckets.reaching(file, "write"):
      file.parent.mkdir(parents=True, exist_ok=True)
      with file.open("w") as f:
        f.writelines(f"{line}\n" for line in lines)


def saved(prefix: epath.Path) -> Iterator:
  """Yields what `save` wrote, in no order."""
  for number in range(_FILES):
    file = epath.Path(f"{prefix}-{number}.jsonl")
    with buckets.reaching(file):
      text = file.read_text() if file.exists() else ""
    yield from map(json.loads, text.split("\n")[:-1])


def read(settings: Settings, folder) -> Summary:
  """Reads a summary."""
  indices = range(len(settings.sources))
  found = Summary(
      [{} for _ in indices],
      [{s: sequences.Counts() for s in sources.SPLITS} for _ in indices],
      tuple(next(saved(folder / "attributes"))),
  )
  for (source, reason), number in saved(folder / "dropped"):
    found.dropped[source][reason] = number
  for (source, split), fields in saved(folder / "counts"):
    found.counts[source][split] = sequences.Counts(**fields)
  for (source, split), number in saved(folder / "kept"):
    found.counts[source][split].documents = number
  return found


def write_texts(settings: Settings, folder, target) -> None:
  """Writes the text beside the records, as `texts.Texts` does.

  The text that is held out must fit into memory here.

  Args:
    settings: what the data set is made of.
    folder: of the summary.
    target: where to.
  """
  splitter = settings.splitter
  written = texts.Texts(target, [s.code for s in settings.sources])
  for _, split, code, text in sorted(saved(folder / "held_out")):
    written.add(split, code, text, splitter.digest(text))
  for code, kept in saved(folder / "train"):
    for text in kept:
      written.add("train", code, text, splitter.digest(text))
  written.finish()


class _Texts(beam.DoFn):
  """Yields the text of each document that stands beside the records."""

  def __init__(self, settings: Settings):
    self._settings = settings

  def process(self, found: tuple) -> Iterator:
    split, place, digest, document = found
    code = self._settings.sources[place[0]].code
    if document.is_pair:
      return
    if split == "train":
      yield pvalue.TaggedOutput(_TRAIN_TEXT, (code, (digest, document.whole)))
    else:
      yield place, split, code, document.whole


class Merged(beam.CombineFn):
  """Combines by an object with `add` and `merge`.

  Args:
    make: returns an empty one.
    result: what is made of it in the end.
  """

  def __init__(self, make: Callable, result: Callable):
    self._make = make
    self._result = result

  def create_accumulator(self):
    return self._make()

  def add_input(self, accumulator, element):
    element = element if isinstance(element, tuple) else (element,)
    accumulator.add(*element)
    return accumulator

  def merge_accumulators(self, accumulators):
    merged = self._make()
    for accumulator in accumulators:
      merged.merge(accumulator)
    return merged

  def extract_output(self, accumulator):
    return self._result(accumulator)
