"""What a tokenizer learns from: training documents of all or some sources."""

from collections.abc import Iterator, Sequence

from ctrl_jax import errors
from ctrl_jax.data import build, documents
from ctrl_jax.data import sources as sources_lib
from ctrl_jax.data.selection import Selection
from ctrl_jax.data.settings import Settings


def shares(
    sources: Sequence[sources_lib.Source], learn_from: Sequence[str]
) -> list[float]:
  """Returns the share of each source's documents to learn from.

  Args:
    sources: all sources.
    learn_from: "NAME=SHARE" each, NAME a source's name or its control code
      (then all sources of that code); nothing means all of every source.

  Raises:
    errors.UserError: another form, an unknown name, a share that is not in
      (0, 1], or a source that is named twice.
  """
  if not learn_from:
    return [1.0] * len(sources)
  found = [0.0] * len(sources)
  for item in learn_from:
    name, _, text = str(item).rpartition("=")
    try:
      share = float(text)
    except ValueError:
      share = -1.0
    if not name or not 0 < share <= 1:
      raise errors.UserError(
          f"tokenizer.learn_from: {item!r} must be NAME=SHARE, the share above"
          " 0 and at most 1, as 'Links=0.05'."
      )
    meant = [i for i, s in enumerate(sources) if name in (s.name, s.code)]
    if not meant:
      known = dict.fromkeys(x for s in sources for x in (s.code, s.name))
      raise errors.UserError(
          f"tokenizer.learn_from: there is no source {name!r}."
          f" {errors.nearest(name, known)}"
      )
    for i in meant:
      if found[i]:
        raise errors.UserError(
            f"tokenizer.learn_from names the source {sources[i].name!r} twice."
        )
      found[i] = share
  return found


def texts(
    settings: Settings, shares: Sequence[float], progress: build.Progress
) -> Iterator[tuple[bytes, str]]:
  """Yields (digest, text) of the training documents to learn from.

  Whether a document is among a source's share depends on its text and
  `settings.seed` alone. Duplicates are not left out.

  Args:
    settings: what the data set is made of.
    shares: of each source's documents; sources with 0 are not read.
    progress: called after each document.

  Raises:
    errors.UserError: bad input, or a source without text.
  """
  selection = Selection(settings)
  for source, share in zip(settings.sources, shares, strict=True):
    if not share:
      continue
    check_is_text(source)
    some = False
    for count, document in enumerate(documents.read(source), 1):
      progress(source, count)
      if document.is_empty:
        continue
      some = True
      digest = selection.digest(document)
      if selection.is_learnt_from(source, document, digest, share):
        yield digest, document.whole
    if not some:
      raise no_text(source)


def no_text(source: sources_lib.Source) -> errors.UserError:
  """Returns the error of a source whose documents, if any, are all empty."""
  return errors.UserError(
      f"Source {source.name!r} yields no text: it has no documents, or all of"
      " them are empty. Check its path and template, or leave it out."
  )


def check_is_text(source: sources_lib.Source) -> None:
  """Refuses a source that a tokenizer cannot learn from.

  Raises:
    errors.UserError: it is one.
  """
  if source.kind == "tfrecords":
    raise errors.UserError(
        f"Source {source.name!r} holds token ids, no text to learn a tokenizer"
        " from: set tokenizer.path to the tokenizer that made them."
    )


def sample(
    settings: Settings,
    chars: int,
    shares: Sequence[float],
    progress: build.Progress,
) -> list[str]:
  """Returns a sample of what `texts` yields, duplicates once.

  Args:
    settings: what the data set is made of.
    chars: size of the sample; it bounds memory too.
    shares: see `texts`.
    progress: called after each document.

  Raises:
    errors.UserError: bad input, or a source without text.
  """
  kept = documents.Sample(chars)
  for digest, text in texts(settings, shares, progress):
    kept.add(digest, text)
  return kept.texts()
