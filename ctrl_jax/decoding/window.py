"""Which tokens the model sees when a text is longer than its window."""

from collections.abc import Sequence

from ctrl_jax import errors


def num_dropped(length: int, window: int, stride: int) -> int:
  """How many tokens after the control code are out of sight.

  Depends on the text's length alone, so that a text continued later goes on as
  if it had never stopped. Zero while `length <= window`, then the smallest
  multiple of `stride` that makes the rest fit.

  Example:

  >>> [num_dropped(n, window=8, stride=3) for n in (8, 9, 11, 12)]
  [0, 3, 3, 6]
  """
  return stride * -(-max(length - window, 0) // stride)


def visible(
    ids: Sequence[int],
    num_code: int,
    window: int,
    stride: int,
    rule: str = "paper",
) -> list[int]:
  """The control code's `num_code` tokens, then the last that fit (section 5).

  Positions restart: the first of them is at position 0. Under the rule
  "release" the first token stays in any case, and of one token more than fits
  the last is not seen yet (generation.py compares `token > seq`).
  """
  if rule == "release":
    num_code = max(num_code, 1)
    if len(ids) == window + 1:
      return list(ids[:window])
  dropped = num_dropped(len(ids), window, stride)
  return [*ids[:num_code], *ids[num_code + dropped:]]


def check_stride(stride: int, num_code: int, window: int) -> int:
  """Returns the stride to use; 0 stands for a quarter of the window.

  Raises:
    errors.UserError: a stride that would drop more than the window holds.
  """
  room = window - num_code
  if room < 1:
    raise errors.UserError(
        f"The control code has {num_code} tokens, the model's window {window}:"
        " use a shorter code."
    )
  stride = stride or min(max(1, window // 4), room)
  if stride > room:
    raise errors.UserError(
        f"stride={stride} must be at most {room}: the window of {window} tokens"
        f" less the control code's {num_code}."
    )
  return stride
