"""Accuracy of Auxiliary Tuning's paper: do samples hold their keyword?"""

from collections.abc import Sequence
from typing import Any

from ctrl_jax import errors
from ctrl_jax.data.keywords import holds_keyword
from ctrl_jax.evaluation import shares


def hits(
    texts: Sequence[str],
    keywords: Sequence[str],
    prefixes: Sequence[str] | None = None,
) -> list[bool]:
  """Returns for each sample whether it holds its keyword.

  Args:
    texts: the continuations alone; what a prompt says does not count.
    keywords: one a text.
    prefixes: what each text continues. A continuation may begin inside a word
      ("know" + "nowhere"): with the prefixes that is no keyword.

  Raises:
    errors.UserError: the numbers of texts, keywords and prefixes differ.
  """
  before = [""] * len(texts) if prefixes is None else prefixes
  if not len(texts) == len(keywords) == len(before):
    raise errors.UserError(
        f"{len(texts)} texts, {len(keywords)} keywords and {len(before)}"
        " prefixes: give one of each a sample."
    )
  return [
      holds_keyword(prefix + text, keyword, start=len(prefix))
      for prefix, text, keyword in zip(before, texts, keywords, strict=True)
  ]


def measure(
    texts: Sequence[str],
    keywords: Sequence[str],
    prefixes: Sequence[str] | None = None,
) -> dict[str, Any]:
  """Returns the share of samples that hold the keyword they were asked for.

  Args:
    texts: see `hits`.
    keywords: see `hits`.
    prefixes: see `hits`.

  Returns:
    See `shares.measure`, by_keyword.

  Raises:
    errors.UserError: see `hits`; no sample at all.

  Example:

  >>> measure(["so it is", "it is"], ["so", "so"])["value"]
  0.5
  """
  return shares.measure(hits(texts, keywords, prefixes), keywords, "keyword")
