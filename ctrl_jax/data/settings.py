"""What decides the content of a data set, besides its tokenizer."""

import dataclasses

from ctrl_jax import errors
from ctrl_jax.data import documents
from ctrl_jax.data import sources as sources_lib


@dataclasses.dataclass(frozen=True)
class Settings:
  """The fields of `config.data` that do, checked."""

  sources: tuple[sources_lib.Source, ...]
  sequence_length: int
  max_unknown: int
  validation_fraction: float
  test_fraction: float
  seed: int
  attribute_length: int = 0
  share: tuple[float, float] = (0.0, 1.0)
  train_share: float = 1.0
  exclude: tuple[str, ...] = ()
  truncate: bool = False

  def __post_init__(self):
    _ = self.splitter  # It checks the fractions.
    if self.max_unknown < 0:
      raise errors.UserError("data.max_unknown must be 0 or more.")
    documents.check_share(self.share, "data.share")
    if not 0 < self.train_share <= 1:
      raise errors.UserError(
          f"data.train_share={self.train_share} must be above 0 and at most 1."
      )
    if not 0 <= self.attribute_length < 2**16:
      raise errors.UserError("data.attribute_length must be 0 or more.")
    if not self.sources:
      raise errors.UserError("data.sources is empty: there is no text.")
    if not any(source.weight for source in self.sources):
      raise errors.UserError(
          "data.sources: all weights are 0, so there is nothing to train on."
          " Give one a weight above 0."
      )
    for source in self.sources:
      if len(source.code.split()) >= self.sequence_length:
        raise errors.UserError(
            f"data.sequence_length={self.sequence_length} leaves no room for"
            f" text after the code {source.code!r}."
        )
      if source.attribute and not self.attribute_length:
        raise errors.UserError(
            f"Source {source.name!r} has an attribute: set"
            " data.attribute_length, its tokens at most."
        )
      if source.kind == "tfrecords" and self.train_share != 1:
        raise errors.UserError(
            f"data.train_share={self.train_share} is of documents, and source"
            f" {source.name!r} holds sequences: leave it at 1."
        )

  @property
  def codes(self) -> tuple[str, ...]:
    """The control codes, each once, in order."""
    return tuple(dict.fromkeys(s.code for s in self.sources if s.code))

  def trains_on(self, document: documents.Document) -> bool:
    """Returns whether a document of the split "train" is in `train_share`."""
    return self.train_share == 1 or self.splitter.is_in_train_share(
        document, self.train_share
    )

  @property
  def splitter(self) -> documents.Splitter:
    """Says which document goes where."""
    return documents.Splitter(
        self.seed, self.validation_fraction, self.test_fraction
    )
