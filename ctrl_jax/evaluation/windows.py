"""How a long text is cut into windows that score each token once."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Window:
  """One row for the model.

  Attributes:
    row: which sequence it belongs to.
    ids: token ids, the prefix in front; the model reads all but the last and
      predicts all but the first.
    first: index in `ids` of the first token that this window scores.
  """

  row: int
  ids: tuple[int, ...]
  first: int

  @property
  def num_scored(self) -> int:
    return len(self.ids) - self.first


def cut(
    row: int, prefix: Sequence[int], tokens: Sequence[int], max_length: int
) -> list[Window]:
  """Cuts `tokens` into windows of at most `max_length` positions.

  The prefix (control code) stands in front of each window. The first window
  scores all it holds. Each later one moves on by half a window and scores the
  new tokens alone, the others being their context: every token is scored
  exactly once, and past the first window with at least half a window before
  it. Without a prefix the text's first token has no prediction, is not scored.

  Args:
    row: kept in each window.
    prefix: ids that are read and never scored; may be empty.
    tokens: ids of the text.
    max_length: positions of the model; more than the prefix's length.

  Example:

  >>> [(w.ids, w.first) for w in cut(0, [9], [1, 2, 3, 4, 5], 3)]
  [((9, 1, 2, 3), 1), ((9, 2, 3, 4), 3), ((9, 3, 4, 5), 3)]
  """
  prefix, tokens = tuple(prefix), tuple(tokens)
  # The last token is predicted and never read, hence the one more.
  size = max_length + 1 - len(prefix)
  assert size > 1, (max_length, len(prefix))
  windows = []
  done = 0 if prefix else 1
  stop = min(size, len(tokens))
  while done < stop:
    start = max(0, stop - size)
    windows.append(
        Window(row, prefix + tokens[start:stop], len(prefix) + done - start)
    )
    done, stop = stop, min(stop + size // 2, len(tokens))
  return windows
