"""OpenWebText, as its scraper saves it: pages, and their URLs beside.

`download.py --compress` writes `MONTH-N_data.xz`, a tar archive of texts
`0000017-MD5.txt`, and `MONTH-N_meta.xz` (also .bz2, .gz), one of
`0000017-MD5.json` with the `url`, in the same order. The corpus that others
published (urlsf_subset00-1_data.xz, ...) has the texts alone.

Source: github.com/jcpeterson/openwebtext, download.py; CTRL's footnote 2.
"""

import itertools
import json
import re
from collections.abc import Iterator, Sequence

from ctrl_jax import errors
from ctrl_jax.data import archives, files


def read(
    path: Sequence[str], *, urls: bool = True
) -> Iterator[tuple[dict, str]]:
  """Yields pages: `text`, and `url`.

  Args:
    path: the archives of texts, `*_data.xz`.
    urls: whether to read the URLs; without them `url` is "".

  Raises:
    errors.UserError: an archive is missing or damaged, or the two of a pair do
      not hold the same pages.
  """
  for file in files.find(path):
    texts = archives.texts(file, ".txt")
    found = _urls(file, texts) if urls else ((n, t, "") for n, t in texts)
    for name, text, url in found:
      yield {"url": url, "text": text}, f"{file}, {name}"


def _urls(file: str, texts: Iterator) -> Iterator[tuple[str, str, str]]:
  meta_file = re.sub(r"_data(\.\w+)+$", r"_meta\1", file)
  if meta_file == file:
    raise errors.UserError(
        f"{file}: expected a name such as 2017-04-1_data.xz, with"
        " 2017-04-1_meta.xz beside it."
    )
  try:
    files.find([meta_file])
  except errors.UserError as e:
    raise errors.UserError(
        f"{e} It holds the URLs of {file}; for pages without any give the"
        " source options=dict(urls=False)."
    ) from e
  metas = archives.texts(meta_file, ".json")
  for page, meta in itertools.zip_longest(texts, metas):
    names = [item and item[0].rpartition(".")[0] for item in (page, meta)]
    if names[0] != names[1]:
      raise errors.UserError(
          f"{file} and {meta_file} do not hold the same pages: {names[0]} and"
          f" {names[1]}. Get them again."
      )
    try:
      url = json.loads(meta[1])["url"]
    except (ValueError, KeyError, TypeError, RecursionError) as e:
      raise errors.UserError(
          f"{meta_file}, {meta[0]}: no JSON object with `url`."
      ) from e
    yield page[0], page[1], url
