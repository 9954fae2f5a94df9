"""Documents -> the rows that one machine would cut, each with its place.

The text of an ordinary source is one stream of tokens, cut wherever a row is
full. So that machines can cut parts of it, documents go into blocks; the sizes
of all blocks, few numbers, tell where in the stream each begins; then the
pieces of a row, mostly one or two, meet.
"""

import itertools
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
from apache_beam import pvalue

from ctrl_jax import text as text_lib
from ctrl_jax.data import build, encoding, records, sequences
from ctrl_jax.data.beam import tokenizers
from ctrl_jax.data.settings import Settings

# Documents a block, consecutive in their file.
_BLOCK = 256

COUNTS = "counts"  # ((index of the source, split), Counts)

_NONE = np.zeros(0, np.int32)


def cut(
    documents,
    settings: Settings,
    tokenizer: text_lib.Tokenizer,
    tokenizer_folder: str,
):
  """Returns the rows of documents that were selected.

  Args:
    documents: (split, place, digest, document), see `documents.select`.
    settings: what the data set is made of.
    tokenizer: knows all the codes.
    tokenizer_folder: where other machines find it, see `tokenizers.save`.

  Returns:
    The outputs `rows`, (split, (key, fields)), keys in the order of the split's
    records with gaps where rows were dropped; and COUNTS.
  """
  cutter = _Cutter(settings, tokenizer, tokenizer_folder)
  blocks = (
      documents
      | "Encode" >> beam.Map(cutter.encode)
      | "Block" >> beam.GroupByKey()
      | "Sort" >> beam.Map(cutter.sort)
  )
  sizes = blocks | "Sizes" >> beam.Map(lambda block: (block[0], block[1]))
  starts = pvalue.AsSingleton(
      sizes
      | "All sizes" >> beam.combiners.ToList()
      | "Starts" >> beam.Map(starts_of, cutter.row_size)
  )
  pieces = blocks | "Pieces" >> beam.FlatMap(cutter.pieces, starts)
  return (
      pieces
      | "Meet" >> beam.GroupByKey()
      | "Row" >> beam.FlatMap(cutter.rows).with_outputs(COUNTS, main="rows")
  )


def starts_of(
    sizes: Iterable[tuple[tuple, int]], row_size
) -> dict[tuple, tuple[int, int]]:
  """Returns where each block begins.

  Args:
    sizes: (block, size) each; a block is (split, source, part, number), its
      size in tokens of a stream, or in rows where documents are cut one by one.
    row_size: index of a source -> the tokens of its rows, or 1.

  Returns:
    block -> (index in the split of its source's first row, size of the
    source's blocks before it).
  """
  starts, row = {}, 0
  for _, of_split in itertools.groupby(sorted(sizes), lambda s: s[0][0]):
    row = 0
    for source, of_source in itertools.groupby(of_split, lambda s: s[0][1]):
      total = 0
      for block, size in of_source:
        starts[block] = row, total
        total += size
      row += -(-total // row_size(source))
  return starts


class _Cutter:
  """The steps, on whatever machine."""

  def __init__(
      self,
      settings: Settings,
      tokenizer: text_lib.Tokenizer,
      tokenizer_folder: str,
  ):
    self._settings = settings
    self._folder = tokenizer_folder
    self._width = settings.sequence_length + 1
    self._unknown_id = tokenizer.unknown_id
    self._code_ids = [
        build.code_ids_of(tokenizer, source) for source in settings.sources
    ]

  def _text_size(self, source: int) -> int:
    return self._width - len(self._code_ids[source])

  def _num_rows(self, source: int, tokens: np.ndarray) -> int:
    """Returns the rows of a document that is no part of a stream."""
    return -(-tokens.size // self._text_size(source))

  def row_size(self, source: int) -> int:
    """Returns the tokens of a stream's row; 1 where there is no stream."""
    is_stream = self._settings.sources[source].is_stream
    return self._text_size(source) if is_stream else 1

  def encode(self, found: tuple) -> tuple:
    """(split, place, digest, document) -> (block, (number, tokens, ...))."""
    split, (source, part, number), _, document = found
    tokenizer = tokenizers.load(self._folder)
    encoded = encoding.encode(tokenizer, document)
    build.check_attribute(
        self._settings, tokenizer, self._settings.sources[source], encoded[2]
    )
    return (split, source, part, number // _BLOCK), (number, *encoded)

  def sort(self, group: tuple) -> tuple:
    """(block, documents) -> (block, its size, the documents in order)."""
    block, encoded = group
    encoded = sorted(encoded, key=lambda e: e[0])
    source = block[1]
    if self._settings.sources[source].is_stream:
      sizes = (tokens.size for _, tokens, _, _ in encoded)
    else:
      sizes = (self._num_rows(source, tokens) for _, tokens, _, _ in encoded)
    return block, sum(sizes), encoded

  def pieces(self, block: tuple, starts: dict) -> Iterator[tuple]:
    """Yields (row, piece): tokens of a stream's row, or a whole document.

    A row is (split, source, its key), a piece (place in the row, tokens,
    weights, attribute).
    """
    name, _, encoded = block
    split, source, _, _ = name
    row, offset = starts[name]
    if self._settings.sources[source].is_stream:
      tokens = np.concatenate([tokens for _, tokens, _, _ in encoded])
      yield from self._of_stream(split, source, row, offset, tokens)
      return
    for _, tokens, weights, attribute in encoded:
      if not tokens.size:  # It has no row; the next document's is at its place.
        continue
      yield (split, source, row + offset), (0, tokens, weights, attribute)
      offset += self._num_rows(source, tokens)

  def _of_stream(self, split, source, row, offset, tokens) -> Iterator[tuple]:
    size = self._text_size(source)
    begin = 0
    while begin < tokens.size:
      number, within = divmod(offset + begin, size)
      piece = tokens[begin : begin + size - within]
      weights = np.ones(piece.size, np.uint8)
      yield (split, source, row + number), (within, piece, weights, _NONE)
      begin += piece.size

  def rows(self, group: tuple) -> Iterator:
    """(row, pieces) -> (split, (key, fields)) each, and COUNTS."""
    (split, source, key), pieces = group
    _, tokens, weights, attributes = zip(*sorted(pieces, key=lambda p: p[0]))
    code_ids = self._code_ids[source]
    rows = sequences.cut(
        np.concatenate(tokens), np.concatenate(weights), code_ids, self._width
    )
    counts = sequences.Counts()
    if self._settings.truncate and self._settings.sources[source].target:
      rows = sequences.truncate(rows, counts, len(code_ids))
    kept = sequences.select(
        rows, counts, len(code_ids), self._unknown_id,
        self._settings.max_unknown,
    )
    examples = records.examples(
        kept, source, attributes[0], self._settings.attribute_length
    )
    for i, fields in enumerate(examples):
      yield split, (key + i, fields)
    yield pvalue.TaggedOutput(COUNTS, ((source, split), counts))
