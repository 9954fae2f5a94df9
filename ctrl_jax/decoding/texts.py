"""The text of a result while it grows: stop strings and streaming."""

from collections.abc import Callable, Sequence
from typing import Any

from ctrl_jax.decoding.generator import Row

# What a decoder shows for bytes that do not make a character yet.
_INCOMPLETE = "\ufffd"
# Prompt tokens decoded with a result, so that a space at the joint is kept.
_CONTEXT = 16


class GrowingText:
  """Follows one row: its text, where it stops, what can be shown already.

  Args:
    row: the result in the making.
    tokenizer: has `decode(ids) -> str`.
    stop: strings that end the result.
    on_text: called with each new piece of text, or None.
  """

  def __init__(
      self,
      row: Row,
      tokenizer: Any,
      stop: Sequence[str] = (),
      on_text: Callable[[str], None] | None = None,
  ):
    self.text = ""
    self._row = row
    self._decode = tokenizer.decode
    self._context = list(row.prompt[-_CONTEXT:])
    self._before = self._decode(self._context)
    self._stop = stop
    self._on_text = on_text
    self._shown = 0
    self._checked = 0

  def update(self) -> None:
    """Takes the row's new tokens; ends the row at a stop string.

    `row.ids` then are the fewest tokens that hold the string, `text` what is
    before it: neither depends on how many tokens came at a time.
    """
    row = self._row
    self.text = self._of(row.ids)
    if self._first_stop(self.text) >= 0:
      for n in range(self._checked + 1, len(row.ids) + 1):
        text = self._of(row.ids[:n])
        end = self._first_stop(text)
        if end >= 0:
          del row.ids[n:]
          row.finished = "stop"
          self.text = text[:end]
          break
    self._checked = len(row.ids)
    if self._on_text is not None:
      ready = len(self.text) if row.finished else self._ready()
      if ready > self._shown:
        self._on_text(self.text[self._shown:ready])
        self._shown = ready

  def _of(self, ids: list[int]) -> str:
    """Text of the generated tokens alone, with the space at the joint."""
    text = self._decode(self._context + ids)
    if text.startswith(self._before):
      return text[len(self._before):]
    return self._decode(ids)

  def _first_stop(self, text: str) -> int:
    places = [text.find(stop) for stop in self._stop]
    return min((place for place in places if place >= 0), default=-1)

  def _ready(self) -> int:
    """How much can be shown: no half character, no half stop string."""
    end = len(self.text.rstrip(_INCOMPLETE))
    for stop in self._stop:
      for n in range(min(len(stop) - 1, end), 0, -1):
        if self.text.endswith(stop[:n], 0, end):
          end -= n
          break
    return end
