"""What a person sees of a training: a bar, rates, time left."""

import sys
import time

import tqdm


class Progress:
  """Counts tokens and productive seconds, and shows them.

  Seconds of evaluation and saving are left out of tokens/s: wrap those in
  `pause`.
  """

  def __init__(
      self,
      steps: int,
      start_step: int,
      flops_per_token: float,
      peak_flops: float,
      show: bool = True,
  ):
    self._flops = flops_per_token
    self._peak = peak_flops
    self._bar = tqdm.tqdm(
        total=steps,
        initial=start_step,
        unit="step",
        dynamic_ncols=True,
        disable=not show,
        # A log file gets a line now and then, not a bar redrawn.
        mininterval=0.5 if sys.stderr.isatty() else 30.0,
    )
    self._mark = self._begin = time.monotonic()
    self._tokens = 0

  @property
  def productive(self) -> float:
    """Seconds since the beginning, without pauses."""
    return time.monotonic() - self._begin

  def step(self, tokens: int) -> None:
    """Counts one update of `tokens` positions."""
    self._tokens += tokens
    self._bar.update()

  def rates(self) -> dict[str, float]:
    """Tokens/s and MFU since the last call."""
    now = time.monotonic()
    rate = self._tokens / max(now - self._mark, 1e-9)
    self._mark, self._tokens = now, 0
    values = {"tokens_per_second": rate}
    if self._peak:
      values["mfu"] = rate * self._flops / self._peak
    return values

  def show(self, loss: float, rates: dict[str, float]) -> None:
    """Puts figures behind the bar."""
    text = f"loss {loss:.3f}, {rates['tokens_per_second']:,.0f} tokens/s"
    if "mfu" in rates:
      text += f", MFU {rates['mfu']:.0%}"
    if "goodput" in rates:
      text += f", goodput {rates['goodput']:.0%}"
    self._bar.set_postfix_str(text)

  def write(self, text: str) -> None:
    """Prints a line above the bar."""
    self._bar.write(text, file=sys.stderr)

  def pause(self) -> "_Pause":
    """Context whose time counts neither for the rates nor as productive."""
    return _Pause(self)

  def close(self) -> None:
    """Leaves the bar as it is."""
    self._bar.close()


class _Pause:

  def __init__(self, progress: Progress):
    self._progress = progress

  def __enter__(self):
    self._start = time.monotonic()

  def __exit__(self, *_):
    seconds = time.monotonic() - self._start
    self._progress._mark += seconds
    self._progress._begin += seconds
