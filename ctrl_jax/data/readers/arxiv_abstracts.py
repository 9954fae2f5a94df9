"""Abstracts of arXiv, a file a topic.

`artificial intelligence_10047_15000_15_abs.txt` has an abstract a line,
`..._title.txt` beside it the titles.

Source: Sergio 2019, github.com/gcunhase/ArXivAbsTitleDataset, as the
Transformer CVAE uses it.
"""

import os
import re
from collections.abc import Iterator, Sequence

from ctrl_jax.data import files
from ctrl_jax.data.readers import companions


def read(path: Sequence[str]) -> Iterator[tuple[dict, str]]:
  """Yields abstracts: `title`, `abstract` and `label`, the topic.

  The topic is the file's name without the numbers in it; it stands in no text
  (the paper's code writes it in front of the title, and then judges by it).
  Abstracts that are empty are passed over.

  Args:
    path: the `_abs.txt` files; each `_title.txt` lies beside its own.

  Raises:
    errors.UserError: a file is missing, or two do not belong together.
  """
  for file in files.find(path):
    other = companions.beside(file, "_abs.", "_title.")
    stem = os.path.basename(file).rpartition("_abs.")[0]
    label = re.sub(r"(?:_\d+)+$", "", stem)
    for number, abstract, title in companions.pairs(file, other):
      if abstract:
        fields = dict(title=title, abstract=abstract, label=label)
        yield fields, f"{file}:{number}"
