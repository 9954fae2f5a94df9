"""What a tokenizer learns from, sampled on many machines."""

import dataclasses
from collections.abc import Iterator, Sequence

import apache_beam as beam
from apache_beam import pvalue

from ctrl_jax.data import documents as documents_lib
from ctrl_jax.data import learning
from ctrl_jax.data.beam import documents, options, summary
from ctrl_jax.data.settings import Settings

_SOME = "some"  # Index of a source that has text.


def sample(
    settings: Settings,
    chars: int,
    shares: Sequence[float],
    beam_options,
    folder,
) -> list[str]:
  """Returns the sample that `ctrl_jax.data.learning.sample` takes.

  Args:
    settings: what the data set is made of.
    chars: size of the sample; it bounds memory, too.
    shares: of each source's documents; sources with 0 are not read.
    beam_options: of Beam, the runner among them.
    folder: a path of etils that all machines reach.

  Raises:
    errors.UserError: bad input, or a source without text.
  """
  settings = documents.expanded(settings)
  learnt = [i for i, share in enumerate(shares) if share]
  for i in learnt:
    learning.check_is_text(settings.sources[i])
  with options.naming_errors():
    with beam.Pipeline(options=beam_options) as pipeline:
      found = (
          pipeline
          | documents.work(settings, learnt)
          | "Read" >> beam.ParDo(_Read(settings, shares)).with_outputs(
              _SOME, main="texts"
          )
      )
      summary.save(
          found.texts
          | "Sample" >> beam.CombineGlobally(summary.Merged(
              lambda: documents_lib.Sample(chars), documents_lib.Sample.texts
          )),
          folder / "sample",
      )
      summary.save(found[_SOME] | beam.Distinct(), folder / "some")
  some = set(summary.saved(folder / "some"))
  for i in learnt:
    if i not in some:
      raise learning.no_text(settings.sources[i])
  return next(summary.saved(folder / "sample"))


class _Read(documents.WithSelection):

  def __init__(self, settings: Settings, shares: Sequence[float]):
    super().__init__(settings)
    self._shares = shares

  def process(self, work: tuple) -> Iterator:
    index, _, path = work
    reader = dataclasses.replace(self._settings.sources[index], path=path)
    some = False
    for document in documents_lib.read(reader):
      if document.is_empty:
        continue
      some = True
      digest = self._selection.digest(document)
      if self._selection.is_learnt_from(
          reader, document, digest, self._shares[index]
      ):
        yield digest, document.whole
    if some:
      yield pvalue.TaggedOutput(_SOME, index)
