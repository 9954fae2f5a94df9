"""Wikipedia, as WikiExtractor writes it with --json.

`WikiExtractor.py --json -o FOLDER enwiki-latest-pages-articles.xml.bz2` makes
FOLDER/AA/wiki_00, ... (with -c: .bz2): a JSON object a line with `id`, `url`,
`title` and `text`.

Source: github.com/attardi/wikiextractor, README.
"""

from collections.abc import Iterator, Sequence

from ctrl_jax import errors
from ctrl_jax.data import files


def read(path: Sequence[str]) -> Iterator[tuple[dict, str]]:
  """Yields articles: `title`, and `text` without the title in front.

  Pages without text (redirects, mostly) are passed over.

  Raises:
    errors.UserError: a file is missing or damaged, or a line is no article.
  """
  for file in files.find(path):
    for fields, where in files.json_objects(file):
      title, text = fields.get("title"), fields.get("text")
      if not isinstance(title, str) or not isinstance(text, str):
        raise errors.UserError(
            f"{where}: no `title` and `text`, which WikiExtractor writes with"
            " --json."
        )
      # Versions before 3 repeat the title as the text's first line.
      text = text.removeprefix(title + "\n").strip("\n")
      if text:
        yield {**fields, "text": text}, where
