"""Protocol buffers' wire format, as much of it as TensorFlow's files need.

Their messages are three and small; reading them here needs no TensorFlow.
"""

from collections.abc import Iterator

import numpy as np


def varint(data: bytes, at: int) -> tuple[int, int]:
  """Reads a base-128 number at `at`; returns it and where the next byte is.

  Raises:
    ValueError: it does not end.
  """
  value = shift = 0
  while True:
    if at >= len(data) or shift > 63:
      raise ValueError("a number does not end")
    byte = data[at]
    value |= (byte & 0x7F) << shift
    at, shift = at + 1, shift + 7
    if byte < 0x80:
      return value, at


def varints(data: bytes) -> np.ndarray:
  """Reads base-128 numbers one behind the other, uint64 [n].

  Raises:
    ValueError: the last does not end.
  """
  octets = np.frombuffer(data, np.uint8)
  ends = np.flatnonzero(octets < 0x80) + 1
  if not octets.size:
    return np.zeros(0, np.uint64)
  starts = np.concatenate([[0], ends[:-1]])
  if not ends.size or ends[-1] != octets.size or (ends - starts).max() > 10:
    raise ValueError("a number does not end")
  shifts = 7 * (np.arange(octets.size) - np.repeat(starts, ends - starts))
  parts = (octets & 0x7F).astype(np.uint64) << shifts.astype(np.uint64)
  return np.add.reduceat(parts, starts)


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
  """Yields (field number, value): whole numbers, or bytes of what has a length.

  Raises:
    ValueError: `data` is no message.
  """
  at = 0
  while at < len(data):
    key, at = varint(data, at)
    number, kind = key >> 3, key & 7
    if kind == 0:
      value, at = varint(data, at)
      yield number, value
      continue
    if kind == 2:
      size, at = varint(data, at)
    elif kind in (1, 5):
      size = 8 if kind == 1 else 4
    else:
      raise ValueError(f"field {number} is of the unknown kind {kind}")
    if at + size > len(data):
      raise ValueError(f"field {number} is cut short")
    value = data[at:at + size]
    at += size
    yield number, value if kind == 2 else int.from_bytes(value, "little")


def message(*values: tuple[int, int | bytes]) -> bytes:
  """The inverse of `fields`, for whole numbers and bytes."""
  found = b""
  for number, value in values:
    if isinstance(value, int):
      found += to_varint(number << 3) + to_varint(value)
    else:
      found += to_varint(number << 3 | 2) + to_varint(len(value)) + value
  return found


def to_varint(value: int) -> bytes:
  """A number (64 bits, negative ones in two's complement) in base 128."""
  value &= 2**64 - 1
  found = bytearray()
  while value >= 0x80:
    found.append(value & 0x7F | 0x80)
    value >>= 7
  found.append(value)
  return bytes(found)
