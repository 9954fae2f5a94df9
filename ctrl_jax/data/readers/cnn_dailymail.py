"""CNN's and the Daily Mail's news, as DeepMind's question answering has them.

`cnn_stories.tgz` and `dailymail_stories.tgz` hold a file an article,
`cnn/stories/HASH.story`: the article's paragraphs, then `@highlight` before
each line of its summary.

Source: Hermann et al. 2015; cs.nyu.edu/~kcho/DMQA.
"""

from collections.abc import Iterator, Sequence

from ctrl_jax.data import archives, files

_MARK = "@highlight"


def read(path: Sequence[str]) -> Iterator[tuple[dict, str]]:
  """Yields articles: `text`, and `highlights`, a line each.

  Args:
    path: archives (`.tgz`) of stories, or stories (`.story`).

  Raises:
    errors.UserError: a file is missing, damaged or not UTF-8.
  """
  for file in files.find(path):
    if archives.is_archive(file):
      for name, story in archives.texts(file, ".story"):
        yield _parts(story), f"{file}, {name}"
    else:
      yield _parts("".join(files.lines(file))), file


def _parts(story: str) -> dict[str, str]:
  text, *highlights = story.split(_MARK)
  return {
      "text": text.strip(),
      "highlights": "\n".join(h.strip() for h in highlights),
  }
