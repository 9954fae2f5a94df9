"""Submissions on Reddit, as pushshift.io published them.

`RS_2019-01.xz` (or .bz2; unpack .zst first) has a JSON object a line with
`subreddit`, `title`, `selftext` and `score` (karma); so have files of a single
subreddit.

Source: Baumgartner et al. 2020, The Pushshift Reddit Dataset.
"""

from collections.abc import Iterator, Sequence

from ctrl_jax import errors
from ctrl_jax.data import files

# What Reddit shows in the place of what was taken back.
_GONE = ("", "[deleted]", "[removed]")


def read(
    path: Sequence[str], *, subreddit: str = "", min_score: int | None = None
) -> Iterator[tuple[dict, str]]:
  """Yields submissions: `title`, `selftext` and `text`.

  `text` is both as CTRL was trained on: `Title: ... Text: ...`, or the title
  alone where a submission is a link. Those whose title is gone are passed over.

  Args:
    path: the files.
    subreddit: take this one alone, in whatever case; "" takes all.
    min_score: leave out submissions with less karma; None leaves out none.

  Raises:
    errors.UserError: a file is missing or damaged, or a line is no submission.
  """
  wanted = subreddit.lower().removeprefix("r/")
  for file in files.find(path):
    for fields, where in files.json_objects(file):
      if wanted and str(fields.get("subreddit")).lower() != wanted:
        continue
      title, score = fields.get("title"), fields.get("score") or 0
      if not isinstance(title, str) or not isinstance(score, (int, float)):
        raise errors.UserError(
            f"{where}: no submission (it has no `title`, or a `score` that is"
            " no number); comments (RC_...) are not read."
        )
      if title in _GONE or (min_score is not None and score < min_score):
        continue
      body = fields.get("selftext") or ""
      body = "" if body in _GONE else body
      text = f"Title: {title}" + (f" Text: {body}" if body else "")
      yield {**fields, "selftext": body, "text": text}, where
