"""What the Transformer CVAE's Tables 1 and 2 say of a data set."""

import dataclasses
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping

from ctrl_jax import errors
from ctrl_jax.data import documents, sources


@dataclasses.dataclass
class Statistics:
  """Sums over texts; the means are properties.

  Attributes:
    texts: how many, exact duplicates and empty ones left out.
    prompts: those that are pairs, with a prompt in front.
    splits: how many texts are in each split.
    prompt_words: runs of anything but white space in the prompts.
    prompt_tokens: of the tokenizer, 0 without one.
    words: in the texts, prompts not included.
    tokens: likewise.
    paragraphs: of the texts, parted by blank lines.
  """

  texts: int = 0
  prompts: int = 0
  splits: dict[str, int] = dataclasses.field(
      default_factory=lambda: dict.fromkeys(sources.SPLITS, 0)
  )
  prompt_words: int = 0
  prompt_tokens: int = 0
  words: int = 0
  tokens: int = 0
  paragraphs: int = 0

  def add(
      self, document: documents.Document, split: str,
      count_tokens: Callable[[str], int],
  ) -> None:
    """Adds a text."""
    self.texts += 1
    self.splits[split] += 1
    if document.is_pair:
      self.prompts += 1
      self.prompt_words += len(document.prompt.split())
      self.prompt_tokens += count_tokens(document.prompt)
    self.words += len(document.text.split())
    self.tokens += count_tokens(document.text)
    self.paragraphs += num_paragraphs(document.text)

  def means(self) -> dict[str, float]:
    """Returns words, tokens and paragraphs a text; 0 for no texts."""
    return dict(
        prompt_words=self.prompt_words / max(self.prompts, 1),
        prompt_tokens=self.prompt_tokens / max(self.prompts, 1),
        words=self.words / max(self.texts, 1),
        tokens=self.tokens / max(self.texts, 1),
        paragraphs=self.paragraphs / max(self.texts, 1),
    )


def num_paragraphs(text: str) -> int:
  """Returns the number of stretches of a text between blank lines.

  >>> num_paragraphs("a\\nb\\n\\n \\nc\\n")
  2
  """
  return sum(bool(part.strip()) for part in re.split(r"\n\s*\n", text))


def collect(
    sources_: Iterable[sources.Source],
    splitter: documents.Splitter,
    tokenizer=None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Statistics]:
  """Goes over sources once, memory independent of their size.

  Texts are those that `prepare` keeps, in its splits.

  Args:
    sources_: the sources.
    splitter: of the configuration.
    tokenizer: a `ctrl_jax.text.Tokenizer`; None counts no tokens.
    progress: called with each source's name, a text each.

  Returns:
    The statistics of each source by name, in order. Sources of one name count
    together.

  Raises:
    errors.UserError: a source that cannot be read, or that holds no text.
  """
  encode = (lambda text: ()) if tokenizer is None else tokenizer.encode
  found = {}
  with (
      tempfile.TemporaryDirectory() as folder,
      documents.Seen(pathlib.Path(folder) / "seen.db") as seen,
  ):
    for source in sources_:
      if source.kind == "tfrecords":
        raise errors.UserError(
            f"Source {source.name!r} holds token ids, no text: leave it out."
        )
      of_source = found.setdefault(source.name, Statistics())
      for document in documents.read(source):
        if progress is not None:
          progress(source.name)
        digest = splitter.digest(document.whole)
        if not document.is_empty and seen.add(digest):
          of_source.add(
              document, splitter.split(source, digest),
              lambda text: len(encode(text)),
          )
  return found


def total(found: Iterable[Statistics]) -> Statistics:
  """Returns the sum of statistics."""
  result = Statistics()
  for one in found:
    for field in dataclasses.fields(Statistics):
      if field.name == "splits":
        for split, count in one.splits.items():
          result.splits[split] += count
      else:
        value = getattr(result, field.name) + getattr(one, field.name)
        setattr(result, field.name, value)
  return result


def table(found: Mapping[str, Statistics], with_tokens: bool) -> str:
  """Returns the statistics as a table for the terminal."""
  rows = dict(found)
  if len(rows) > 1:
    rows["all"] = total(found.values())
  columns = ["prompt_words", "prompt_tokens", "words", "tokens", "paragraphs"]
  if not with_tokens:
    columns = [name for name in columns if "tokens" not in name]
  lines = [[
      "source", "texts", *sources.SPLITS,
      *(name.replace("_", " ") for name in columns),
  ]]
  for name, one in rows.items():
    means = one.means()
    if not one.prompts:
      means |= dict.fromkeys(("prompt_words", "prompt_tokens"))
    lines.append([
        name if len(name) <= 40 else name[:37] + "...", f"{one.texts:,}",
        *(f"{one.splits[split]:,}" for split in sources.SPLITS),
        *("-" if means[c] is None else f"{means[c]:.1f}" for c in columns),
    ])
  widths = [max(map(len, column)) for column in zip(*lines)]
  return "\n".join(
      "  ".join([
          line[0].ljust(widths[0]),
          *(value.rjust(w) for value, w in zip(line[1:], widths[1:])),
      ])
      for line in lines
  )
