"""Reviews of restaurants with one to five stars.

A line is `LABEL<TAB>TEXT`, the label a digit from 0 (one star) to 4 (five).

Source: Yang et al. 2017 (arXiv 1702.08139), as He et al. 2018 publish it:
tokenised, rare words replaced by `_UNK`.
"""

from collections.abc import Iterator, Sequence

from ctrl_jax import errors
from ctrl_jax.data import files

_SENTIMENTS = ("negative", "negative", "neutral", "positive", "positive")


def read(
    path: Sequence[str], *, drop_neutral: bool = False
) -> Iterator[tuple[dict, str]]:
  """Yields reviews: `text`, `label` ("0" to "4") and `sentiment`.

  The sentiment is "negative" below three stars, "positive" above, else
  "neutral". The text does not hold the label.

  Args:
    path: the files.
    drop_neutral: leave out reviews of three stars, as the Transformer CVAE's
      paper does.

  Raises:
    errors.UserError: a file is missing, or a line has another layout.
  """
  for file in files.find(path):
    for number, line in enumerate(files.lines(file), 1):
      if not line.strip():
        continue
      label, tab, text = line.partition("\t")
      if not tab or label not in tuple("01234"):
        raise errors.UserError(
            f"{file}:{number}: not a label from 0 to 4, a tab and a text:"
            f" {line[:40]!r}."
        )
      sentiment = _SENTIMENTS[int(label)]
      if text.strip() and not (drop_neutral and sentiment == "neutral"):
        fields = dict(text=text.strip(), label=label, sentiment=sentiment)
        yield fields, f"{file}:{number}"
