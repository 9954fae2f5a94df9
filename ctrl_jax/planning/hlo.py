"""A reader of XLA's optimised HLO text.

XLA's own `cost_analysis` counts the body of a loop once, however often it
runs, and knows neither the padding of TPU layouts nor which collective costs
what. So the compiled program is read from its text, as far as
`planning/costs.py` needs it: shapes with their layouts, instructions, called
computations, trip counts and the devices of a collective.

The format is that of `jax.stages.Compiled.as_text()`, one instruction a line:

  %sum = f32[8,128]{1,0:T(8,128)} fusion(%a, %b), kind=kLoop, calls=%f
"""

import dataclasses
import functools
import math
import re

import numpy as np

_BITS = {
    "pred": 8, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "s16": 16, "u16": 16,
    "s32": 32, "u32": 32, "s64": 64, "u64": 64, "f16": 16, "bf16": 16,
    "f32": 32, "f64": 64, "c64": 64, "f8e4m3fn": 8, "f8e5m2": 8,
}
_SHAPE = re.compile(r"([a-z]\w*)\[([^\]]*)\](?:\{([^}]*)\})?")
_NAME = r"%?([\w.<>\-]+)"
_INSTRUCTION = re.compile(rf"^\s*(ROOT )?{_NAME} = (.*)$")
_COMPUTATION = re.compile(rf"^(ENTRY )?{_NAME} \(.*\{{$")


@dataclasses.dataclass(frozen=True)
class Shape:
  """An array and how it lies in memory.

  Attributes:
    dtype: HLO's name of it.
    dims: logical sizes.
    order: dimensions from the minor to the major one.
    tile: sizes of the tile that the minor dimensions are padded to; () is none.
    memory: 0 is the device's main memory, others are on the chip (S(1)).
  """

  dtype: str
  dims: tuple[int, ...]
  order: tuple[int, ...] = ()
  tile: tuple[int, ...] = ()
  memory: int = 0

  @property
  def bytes(self) -> int:
    """Bytes without padding."""
    return math.prod(self.dims) * _BITS.get(self.dtype, 0) // 8

  @property
  def padded_bytes(self) -> int:
    """Bytes as stored: minor dimensions rounded up to whole tiles."""
    order = self.order or tuple(reversed(range(len(self.dims))))
    dims = [self.dims[d] for d in reversed(order)]
    dims = [1] * (len(self.tile) - len(dims)) + dims
    for i, size in enumerate(reversed(self.tile), start=1):
      dims[-i] = round_up(dims[-i], size)
    return math.prod(dims) * _BITS.get(self.dtype, 0) // 8


@dataclasses.dataclass(frozen=True)
class Instruction:
  """One line.

  Attributes:
    name: without the %.
    opcode: as `fusion`.
    shapes: of the result, a tuple's parts flattened.
    operands: names; for `parameter` and `constant` what stands there instead.
    attributes: the rest of the line.
  """

  name: str
  opcode: str
  shapes: tuple[Shape, ...]
  operands: tuple[str, ...]
  attributes: str

  def attribute(self, name: str) -> str | None:
    """Returns the text of `name=...`, without braces, or None."""
    match = re.search(
        rf"(?<!\w){name}=(?:\{{([^}}]*)\}}|([^\s,]+))", self.attributes
    )
    if match is None:
      return None
    return match[1] if match[1] is not None else match[2]

  def integers(self, name: str) -> tuple[int, ...]:
    """Returns the numbers of `name={1,2}`, () without it."""
    return tuple(map(int, re.findall(r"\d+", self.attribute(name) or "")))

  def called(self, name: str) -> str:
    """Returns the computation that `name=%f` calls."""
    return self.attribute(name).lstrip("%")

  @property
  def op_name(self) -> str:
    """JAX's name of what made it, as `jit(f)/while/body/dot_general`."""
    match = re.search(r'op_name="([^"]*)"', self.attributes)
    return match[1] if match else ""


@dataclasses.dataclass(frozen=True)
class Computation:
  """Instructions by name, in order."""

  name: str
  instructions: dict[str, Instruction]
  root: Instruction

  @functools.cached_property
  def parameters(self) -> tuple[Instruction, ...]:
    found = [i for i in self.instructions.values() if i.opcode == "parameter"]
    return tuple(sorted(found, key=lambda i: int(i.operands[0])))

  @functools.cached_property
  def users(self) -> dict[str, list[Instruction]]:
    """Instructions that read a name."""
    users = {name: [] for name in self.instructions}
    for instruction in self.instructions.values():
      for operand in set(instruction.operands):
        if operand in users:
          users[operand].append(instruction)
    return users

  def shapes(self, name: str) -> tuple[Shape, ...]:
    """The shapes of an operand."""
    return self.instructions[name].shapes


@dataclasses.dataclass(frozen=True)
class Module:
  """A compiled program.

  Attributes:
    computations: by name.
    entry: the one that runs.
    aliases: numbers of the entry's parameters whose memory a result takes over.
  """

  computations: dict[str, Computation]
  entry: Computation
  aliases: frozenset[int]

  def trip_count(self, loop: Instruction) -> int:
    """How often a `while` runs.

    XLA writes it down (`known_trip_count`), or the condition compares the
    counter, which starts at 0, with a constant.

    Raises:
      ValueError: neither.
    """
    known = re.search(r'known_trip_count[^}]*?"n":"?(\d+)', loop.attributes)
    if known:
      return int(known[1])
    condition = self.computations[loop.called("condition")]
    numbers = _constants(self, condition)
    if len(numbers) != 1:
      raise ValueError(
          f"The trip count of {loop.name} is not one constant: {numbers}."
      )
    return numbers[0]


def _constants(module: Module, computation: Computation) -> list[int]:
  """Integer constants of a condition and of what it calls."""
  result = []
  for i in computation.instructions.values():
    if i.opcode == "constant" and re.fullmatch(r"\d+", i.operands[0]):
      if i.shapes[0].dtype != "pred":
        result.append(int(i.operands[0]))
    elif i.opcode == "fusion":
      result += _constants(module, module.computations[i.called("calls")])
  return result


def parse(text: str) -> Module:
  """Reads the text of a module."""
  computations, entry = {}, None
  name, is_entry, instructions, root = "", False, {}, None
  lines = text.splitlines()
  for line in lines:
    if header := _COMPUTATION.match(line):
      is_entry, name = bool(header[1]), header[2]
      instructions, root = {}, None
    elif line.startswith("}"):
      computation = Computation(name, instructions, root)
      computations[name] = computation
      entry = computation if is_entry else entry
    elif name and (match := _INSTRUCTION.match(line)):
      instruction = _parse_instruction(match[2], match[3])
      instructions[instruction.name] = instruction
      root = instruction if match[1] else root
  return Module(computations, entry, _aliases(lines[0]))


def _aliases(header: str) -> frozenset[int]:
  """`input_output_alias={ {0}: (3, {}, may-alias) }` -> {3}."""
  start = header.find("input_output_alias=")
  if start < 0:
    return frozenset()
  return frozenset(
      int(n) for n in re.findall(r"\{[\d, ]*\}: \((\d+),", header[start:])
  )


def _parse_instruction(name: str, rest: str) -> Instruction:
  """Takes `SHAPE opcode(operands), attributes` apart."""
  end = _closing(rest, 0) if rest.startswith("(") else rest.index(" ")
  shapes = parse_shapes(rest[:end])
  rest = rest[end:].lstrip(" ")
  start = rest.index("(")
  end = _closing(rest, start)
  inside = re.sub(r"/\*.*?\*/", "", rest[start + 1:end - 1])
  opcode = rest[:start]
  if opcode == "constant":
    operands = (inside,)
  else:
    # An operand may stand behind its shape, whose commas are in brackets.
    inside = re.sub(r"\[[^\]]*\](\{[^}]*\})?", "", inside)
    operands = tuple(
        part.split()[-1].lstrip("%") for part in inside.split(",")
        if part.strip()
    )
  return Instruction(name, opcode, shapes, operands, rest[end:])


def _closing(text: str, start: int) -> int:
  """The place behind the parenthesis that closes the one at `start`."""
  depth = 0
  for i in range(start, len(text)):
    depth += {"(": 1, ")": -1}.get(text[i], 0)
    if depth == 0:
      return i + 1
  raise ValueError(f"Unbalanced parentheses: {text[:80]}")


def parse_shapes(text: str) -> tuple[Shape, ...]:
  """`(f32[8]{0}, s32[])` -> its parts."""
  text = re.sub(r"/\*.*?\*/", "", text)
  return tuple(_parse_shape(m) for m in _SHAPE.finditer(text))


def _parse_shape(match: re.Match) -> Shape:
  dims = tuple(map(int, re.findall(r"\d+", match[2])))
  order, _, details = (match[3] or "").partition(":")
  tile = re.search(r"T\(([\d,]+)\)", details)
  memory = re.search(r"S\((\d+)\)", details)
  return Shape(
      match[1],
      dims,
      tuple(map(int, re.findall(r"\d+", order))),
      tuple(map(int, tile[1].split(","))) if tile else (),
      int(memory[1]) if memory else 0,
  )


def first_group(collective: Instruction, num_devices: int) -> tuple[int, ...]:
  """The devices of a collective's first group (the others are alike).

  Three ways to write groups: lists `{{0,1},{2,3}}`; iota `[2,4]<=[2,4]T(1,0)`,
  the rows of a transposed range; and `mesh['x'=2,'y'=4] {'y'}`, along axes.
  """
  text = collective.attributes
  if match := re.search(r"replica_groups=mesh\[([^\]]*)\] *\{([^}]*)\}", text):
    names = re.findall(r"'([^']*)'=", match[1])
    sizes = list(map(int, re.findall(r"=(\d+)", match[1])))
    along = [names.index(n) for n in re.findall(r"'([^']*)'", match[2])]
    ids = np.arange(math.prod(sizes)).reshape(sizes)
    index = tuple(slice(None) if i in along else 0 for i in range(len(sizes)))
    return tuple(ids[index].ravel().tolist())
  if match := re.search(
      r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text
  ):
    groups, sizes = (list(map(int, match[i].split(","))) for i in (1, 2))
    ids = np.arange(math.prod(sizes)).reshape(sizes)
    if match[3]:
      ids = ids.transpose(list(map(int, match[3].split(","))))
    return tuple(ids.reshape(groups)[0].tolist())
  if match := re.search(r"replica_groups=\{\{([\d,]+)\}", text):
    return tuple(map(int, match[1].split(",")))
  return tuple(range(num_devices))


def round_up(n: int, multiple: int) -> int:
  """The smallest multiple of `multiple` that is not below `n`."""
  return -(-n // multiple) * multiple
