"""The New York Times Annotated Corpus (LDC2008T19).

`data/1987/01.tgz` and so on: an archive a month, an article a file in the News
Industry Text Format, whose `<block class="full_text">` has the paragraphs.

Source: Sandhaus 2008, catalog.ldc.upenn.edu/LDC2008T19.
"""

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from ctrl_jax import errors
from ctrl_jax.data import archives, files


def read(path: Sequence[str]) -> Iterator[tuple[dict, str]]:
  """Yields articles: `headline`, and `text`, a paragraph a line.

  Articles without a text are passed over.

  Args:
    path: archives (`.tgz`) of articles, or articles (`.xml`).

  Raises:
    errors.UserError: a file is missing or damaged, or is no XML.
  """
  for file in files.find(path):
    if archives.is_archive(file):
      articles = archives.texts(file, ".xml")
      articles = ((f"{file}, {name}", xml) for name, xml in articles)
    else:
      articles = [(file, "".join(files.lines(file)))]
    for where, xml in articles:
      fields = _parts(xml, where)
      if fields["text"]:
        yield fields, where


def _parts(xml: str, where: str) -> dict[str, str]:
  try:
    root = ElementTree.fromstring(xml)
  except ElementTree.ParseError as e:
    raise errors.UserError(f"{where}: not XML ({e}). Get it again.") from e
  paragraphs = [
      " ".join("".join(p.itertext()).split())
      for p in root.iterfind(".//block[@class='full_text']/p")
  ]
  headline = root.findtext(".//hedline/hl1") or ""
  return {
      "headline": " ".join(headline.split()),
      "text": "\n".join(filter(None, paragraphs)),
  }
