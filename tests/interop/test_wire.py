"""Protocol buffers' wire format: round trips, and what is cut short."""

import random

import pytest

from ctrl_jax.interop import wire


def test_numbers_of_every_size_come_back():
  draw = random.Random(0)
  for bits in range(65):
    value = draw.getrandbits(bits)
    data = wire.to_varint(value)
    assert len(data) == max(1, -(-value.bit_length() // 7))
    assert wire.varint(b"xy" + data + b"\xff", 2) == (value, 2 + len(data))
  assert wire.to_varint(-1) == b"\xff" * 9 + b"\1"


def test_many_numbers_at_once():
  draw = random.Random(1)
  values = [draw.getrandbits(draw.randrange(65)) for _ in range(500)]
  values.append(2**64 - 1)
  data = b"".join(map(wire.to_varint, values))
  assert wire.varints(data).tolist() == values
  assert wire.varints(b"").size == 0
  for broken in (data[:-1], b"\xff" * 10 + b"\1", b"\x80"):
    with pytest.raises(ValueError, match="does not end"):
      wire.varints(broken)


def test_known_bytes():
  """The examples of protocol buffers' own description."""
  assert wire.to_varint(150) == b"\x96\1"
  assert wire.message((1, 150)) == b"\x08\x96\1"
  assert wire.message((2, b"testing")) == b"\x12\7testing"


def test_random_messages_come_back():
  draw = random.Random(0)
  for _ in range(200):
    values = [
        (
            draw.randrange(1, 2**draw.randrange(1, 20)),
            draw.choice([
                draw.getrandbits(draw.randrange(65)),
                draw.randbytes(draw.randrange(300)),
            ]),
        )
        for _ in range(draw.randrange(6))
    ]
    assert list(wire.fields(wire.message(*values))) == values


def test_fields_of_fixed_size():
  data = b"\x35\x01\x02\0\0" + b"\x39" + (2**60 + 3).to_bytes(8, "little")
  assert list(wire.fields(data)) == [(6, 0x201), (7, 2**60 + 3)]


def test_every_cut_inside_a_field_is_noticed():
  parts = [
      wire.message((1, 300)), wire.message((2, b"abc")), b"\x1d\0\0\0\0",
      b"\x21" + b"\0" * 8,
  ]
  whole = b"".join(parts)
  ends = {sum(map(len, parts[:n])) for n in range(len(parts) + 1)}
  for size in range(len(whole) + 1):
    if size in ends:
      list(wire.fields(whole[:size]))
    else:
      with pytest.raises(ValueError, match=r"does not end|\d is cut short"):
        list(wire.fields(whole[:size]))


@pytest.mark.parametrize(
    "data, message",
    [
        (b"\x08" + b"\x80" * 10 + b"\1", "does not end"),
        (b"\x0b", "field 1 is of the unknown kind 3"),
        (b"\x12\xff\xff\xff\xff\x0fabc", "field 2 is cut short"),
    ],
)
def test_what_is_no_message(data, message):
  with pytest.raises(ValueError, match=message):
    list(wire.fields(data))
