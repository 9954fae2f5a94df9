"""Which documents a data set takes, decided for each by itself.

Only duplicates need to know of other documents: `prepare` asks before and
after it looks for them, on one machine or on many.
"""

from ctrl_jax.data import documents
from ctrl_jax.data import sources as sources_lib
from ctrl_jax.data.settings import Settings


class Selection:
  """Says of each document whether it is taken, and for which split.

  Args:
    settings: what the data set is made of.

  Raises:
    errors.UserError: a file of `settings.exclude` cannot be read.
  """

  def __init__(self, settings: Settings):
    self._settings = settings
    self._splitter = settings.splitter
    self._excluded = documents.Excluded(settings.exclude)

  def digest(self, document: documents.Document) -> bytes:
    """Returns the salted hash that places the document."""
    return self._splitter.digest(document.whole)

  def identity(self, document: documents.Document) -> bytes:
    """Returns the hash that duplicates share."""
    return self._splitter.digest(document.identity)

  def before(self, document: documents.Document, digest: bytes) -> str:
    """Returns why the document is dropped whatever others are, "" if not."""
    if document.is_empty:
      return "empty"
    if not self._splitter.is_in(digest, self._settings.share):
      return "not_in_share"
    return ""

  def after(
      self,
      source: sources_lib.Source,
      document: documents.Document,
      digest: bytes,
  ) -> tuple[str, str]:
    """Returns the split of the first of its kind, and why it is dropped.

    Returns:
      "train" and "not_in_train_share" for what `data.train_share` leaves out;
      "" and a reason, or a split and "".
    """
    if self._excluded.is_in(document.whole):
      return "", "excluded"
    split = self._splitter.split(source, digest)
    if split == "train" and not self._settings.trains_on(document):
      return split, "not_in_train_share"
    return split, ""

  def is_learnt_from(
      self,
      source: sources_lib.Source,
      document: documents.Document,
      digest: bytes,
      share: float,
  ) -> bool:
    """Returns whether a tokenizer learns from a document.

    Args:
      source: the document's.
      document: the document.
      digest: from `digest`.
      share: of the source's training documents that it learns from.
    """
    return (
        # First: it looks at no text.
        self._splitter.is_in_share(digest, share)
        and not self.before(document, digest)
        and self.after(source, document, digest) == ("train", "")
    )
