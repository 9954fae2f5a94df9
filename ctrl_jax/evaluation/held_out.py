"""Held-out texts as rows of tokens, with labels: those of a data set, or new.

Rows are as `prepare` writes them: control code, prompt, target and its end, cut
to W = sequence_length + 1 tokens, the first row of each text alone.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctrl_jax import errors
from ctrl_jax.data import batches as batches_lib
from ctrl_jax.data import documents, encoding, sequences
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.data.sources import Source
from ctrl_jax.evaluation import diversity


class Texts(NamedTuple):
  """N texts.

  Attributes:
    tokens: int32 [N, W].
    weights: uint8 [N, W], 1 on targets.
    labels: N; () without.
    attribute: int32 [N, A], padded on the right; None without.
    attribute_length: int32 [N].
  """

  tokens: np.ndarray
  weights: np.ndarray
  labels: tuple[str, ...] = ()
  attribute: np.ndarray | None = None
  attribute_length: np.ndarray | None = None

  def targets(self) -> list[np.ndarray]:
    """Returns each text's target ids."""
    return [row[w > 0] for row, w in zip(self.tokens, self.weights)]


def of_records(manifest: Manifest, split: str, max_texts: int = 0) -> Texts:
  """Returns records of a prepared data set.

  Args:
    manifest: the data set.
    split: "train", "validation" or "test".
    max_texts: spread evenly over the split; 0 for all.

  Raises:
    errors.UserError: the split is empty.
  """
  rows = list(
      batches_lib.evaluation_batches(manifest, split, 1, max_texts)
  )
  if not rows:
    raise errors.UserError(
        f"The data set {str(manifest.folder)!r} has no {split} texts: choose"
        " another --split, or prepare it with a larger share."
    )
  names = rows[0].keys() & set(Texts._fields)
  return Texts(**{
      name: np.concatenate([row[name] for row in rows]) for name in names
  })


def unseen(manifest: Manifest, max_texts: int) -> Texts:
  """Returns test records of a data set, then validation's if there are fewer.

  Args:
    manifest: the data set.
    max_texts: as many as there are, at most.

  Raises:
    errors.UserError: the test split is empty.
  """
  found = of_records(manifest, "test", max_texts)
  missing = max_texts - len(found.tokens)
  if missing <= 0 or not manifest.size("validation"):
    return found
  more = of_records(manifest, "validation", missing)
  joined = {
      name: np.concatenate([getattr(found, name), getattr(more, name)])
      for name in Texts._fields
      if isinstance(getattr(found, name), np.ndarray)
  }
  return Texts(**joined)


def sources_of(manifest: Manifest) -> list[Source]:
  """Returns the sources that a data set was made of."""
  return [
      Source.from_config(source)
      for source in manifest.config.get("data", {}).get("sources", ())
  ]


def read(
    sources: Sequence[Source],
    manifest: Manifest,
    split: str,
    *,
    label: str = "",
    max_texts: int = 0,
) -> list[tuple[str, documents.Document]]:
  """Reads documents of sources anew, in the data set's splits.

  Args:
    sources: the data set's, or others for the same model.
    manifest: of the data set; says how texts are split.
    split: of the texts.
    label: template of a text's label, `{topic}`; "" for none.
    max_texts: those whose hashes are smallest, so always the same; 0 for all.

  Returns:
    (control code, document) each, the label as its attribute.

  Raises:
    errors.UserError: no texts, or an empty label.
  """
  data = manifest.config.get("data", {})
  splitter = documents.Splitter(
      manifest.seed, data.get("validation_fraction", 0.0),
      data.get("test_fraction", 0.0),
  )
  found = {}
  # A label is rendered as attributes are.
  for source in (dataclasses.replace(s, attribute=label) for s in sources):
    for document in documents.read(source):
      digest = splitter.digest(document.whole)
      if not document.is_empty and splitter.split(source, digest) == split:
        found.setdefault(digest, (source.code, document))
  if not found:
    raise errors.UserError(
        f"There are no {split} texts: choose another --split, or give --input."
    )
  chosen = [found[d] for d in sorted(found)[: max_texts or None]]
  if label and not all(document.attribute for _, document in chosen):
    raise errors.UserError(
        f"--label={label!r} is empty for a text: give a field that all have."
    )
  return chosen


def of_sources(
    sources: Sequence[Source],
    manifest: Manifest,
    tokenizer: Any,
    split: str,
    *,
    label: str = "",
    max_texts: int = 0,
) -> Texts:
  """Returns documents as the data set's rows.

  Args:
    sources: see `read`, like the rest.
    manifest: says how long rows are, too.
    tokenizer: of the model.
    split: of the texts.
    label: template of their labels.
    max_texts: at most.

  Raises:
    errors.UserError: see `read`; or a prompt leaves no room for its text.
  """
  chosen = read(sources, manifest, split, label=label, max_texts=max_texts)
  width = manifest.sequence_length + 1
  rows = [_row(tokenizer, document, code, width) for code, document in chosen]
  return Texts(
      *map(np.stack, zip(*rows)),
      tuple(document.attribute for _, document in chosen) if label else (),
  )


def _row(tokenizer, document, code, width):
  code_ids = list(tokenizer.begin_ids)
  if code:
    code_ids = tokenizer.code_ids(code)
  ids, weights, _ = encoding.encode(tokenizer, document._replace(attribute=""))
  rows = sequences.cut(ids, weights, code_ids, width)
  if not rows.weights[0].any():
    raise errors.UserError(
        f"The prompt {document.prompt[:40]!r} leaves no room for its text in"
        f" {width - 1} tokens: shorten it."
    )
  return rows.tokens[0], rows.weights[0]


def batches(texts: Texts, size: int) -> Iterator[dict[str, np.ndarray]]:
  """Yields `tokens`, `weights` and, if there are any, attributes of all texts.

  Batches of nearly equal numbers of texts, so that none has one alone, filled
  up to `size` with rows of weight 0.
  """
  arrays = {
      name: value for name, value in texts._asdict().items()
      if name != "labels" and value is not None
  }
  count = len(texts.tokens)
  for places in np.array_split(np.arange(count), -(-count // size)):
    fill = size - len(places)
    yield {
        name: np.pad(x[places], [(0, fill)] + [(0, 0)] * (x.ndim - 1))
        for name, x in arrays.items()
    }


def num_words(texts: Texts, tokenizer: Any) -> np.ndarray:
  """Returns words and punctuation marks of each target, float64 [N].

  Those of `diversity.words`; the CVAE's authors count likewise, and line ends,
  too. A target without any counts as one.
  """
  end = tokenizer.end_id
  return np.array([
      max(len(diversity.words(tokenizer.decode([i for i in ids if i != end]))),
          1)
      for ids in (target.tolist() for target in texts.targets())
  ], np.float64)
