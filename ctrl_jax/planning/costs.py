"""What the instructions of a compiled program do: products, bytes, messages.

Each instruction that runs becomes an `Operation` with the number of times it
runs. A fusion is one operation: what it computes inside costs no memory
traffic, and of an operand that it only slices (one layer of a stack) the slice
counts.
"""

import dataclasses
import math
import re
from collections.abc import Iterator

from ctrl_jax.planning import hlo

# Collectives, and how many times its result (all-gather, all-reduce, ...) or
# its input (reduce-scatter) a device sends or receives.
COLLECTIVES = {
    "all-gather": 1,
    "reduce-scatter": 1,
    "all-reduce": 2,
    "all-to-all": 1,
    "ragged-all-to-all": 1,
    "collective-permute": 1,
}
# Nothing moves: names for what is there, or for what another line did.
_FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast",
    "after-all", "partition-id", "replica-id", "opt-barrier", "add-dependency",
    "optimization-barrier", "domain",
}
# In a fusion these pass on what a slice behind them needs.
_LOOK_THROUGH = {"bitcast", "reshape", "get-tuple-element", "convert", "pad"}
_SLICES = {"dynamic-slice", "slice", "gather"}


@dataclasses.dataclass(frozen=True)
class Product:
  """Matrix products [m, k] x [k, n], `count` of them."""

  m: int
  n: int
  k: int
  count: int = 1

  @property
  def flops(self) -> int:
    return 2 * self.count * self.m * self.n * self.k

  def padded_flops(self, mxu: int) -> int:
    """FLOPs on a unit of mxu x mxu: sizes rounded up to what it works on.

    The stationary operand fills both sides of the unit; the other streams past
    in rows of 8. Either one can be stationary.
    """
    k = hlo.round_up(self.k, mxu)
    sizes = min(
        hlo.round_up(self.m, 8) * hlo.round_up(self.n, mxu),
        hlo.round_up(self.m, mxu) * hlo.round_up(self.n, 8),
    )
    return 2 * self.count * sizes * k


@dataclasses.dataclass(frozen=True)
class Operation:
  """One instruction and how often it runs.

  Attributes:
    name: the instruction's.
    op_name: JAX's name of what it came from.
    times: how often it runs in a step.
    products: the matrix products in it.
    bytes: read from and written to the main memory by one run.
    collective: its kind, "" for none.
    message: bytes of a collective's whole array, as padded in memory.
    group: the devices of its first group.
    in_loop: whether a loop runs it.
    cycles: XLA's own estimate of one run, 0 where it gives none.
  """

  name: str
  op_name: str
  times: int
  products: tuple[Product, ...] = ()
  bytes: int = 0
  collective: str = ""
  message: int = 0
  group: tuple[int, ...] = ()
  in_loop: bool = False
  cycles: int = 0

  @property
  def flops(self) -> int:
    """Of one run, of matrix products alone."""
    return sum(p.flops for p in self.products)


def operations(module: hlo.Module, num_devices: int) -> list[Operation]:
  """All that a device does in one run of the program, in order."""
  return list(_run(module, module.entry, 1, num_devices))


def _run(module, computation, times, num_devices) -> Iterator[Operation]:
  """Operations of a computation that runs `times` times."""
  for i in computation.instructions.values():
    if i.opcode == "while":
      body = module.computations[i.called("body")]
      trips = module.trip_count(i)
      yield from _run(module, body, times * trips, num_devices)
    elif i.opcode == "call":
      callee = module.computations[i.called("to_apply")]
      yield from _run(module, callee, times, num_devices)
    elif i.opcode == "conditional":
      yield from _longest_branch(module, i, times, num_devices)
    elif i.opcode not in _FREE and not i.opcode.endswith("-done"):
      yield from _operations(module, computation, i, times, num_devices)


def _longest_branch(module, instruction, times, num_devices):
  """Of a conditional's branches the one with the most bytes."""
  names = re.findall(
      r"%([\w.\-]+)",
      " ".join(
          instruction.attribute(a) or ""
          for a in ("branch_computations", "true_computation",
                    "false_computation")
      ),
  )
  branches = [
      list(_run(module, module.computations[n], times, num_devices))
      for n in names
  ]
  return max(branches, key=lambda b: sum(o.bytes * o.times for o in b))


def _operations(module, computation, i, times, num_devices):
  """Of one instruction; of a fusion with a collective what else it does, too.

  It computes while the collective, which it starts, is on its way.
  """
  kind, where, source = _collective(module, computation, i)
  products = tuple(_products(module, computation, i))
  moved = _traffic(module, computation, i)
  cycles = re.search(r'"estimated_cycles":"(\d+)"', i.attributes)
  whole = Operation(
      name=i.name, op_name=i.op_name, times=times, products=products,
      bytes=moved, in_loop=times > 1, cycles=int(cycles[1]) if cycles else 0,
  )
  if not kind:
    yield whole
    return
  own = moved
  if i.opcode == "fusion" and kind != "reduce-scatter":
    # A chain's input is passed on, see `_read_bytes`.
    shapes = list(source.shapes)
    if not _is_chained(where):
      shapes += [s for o in source.operands for s in where.shapes(o)]
    own = min(moved, sum(map(_main_bytes, shapes)))
  yield dataclasses.replace(
      whole, products=(), bytes=own, collective=kind,
      message=sum(s.padded_bytes for s in _message(kind, where, source)),
      group=hlo.first_group(source, num_devices),
      cycles=0 if products else whole.cycles,
  )
  if products or moved > own:
    yield dataclasses.replace(
        whole, bytes=moved - own, cycles=whole.cycles if products else 0
    )


def _collective(module, computation, i):
  """(kind, computation, instruction) of the collective that `i` is or holds.

  Asynchronous ones are `all-gather-start`, or `async-start` that calls one. On
  TPU a reduce-scatter is a fusion of an all-reduce and a slice. There is also a
  chain of fusions that all hold the same collective: one starts it, others
  compute while it goes on, the last waits for it. The first counts as it.
  """
  kind = i.opcode.removesuffix("-start")
  if kind in COLLECTIVES:
    return kind, computation, i
  if i.opcode in ("fusion", "async-start"):
    inner = module.computations[i.called("calls")]
    if _is_chained(inner) and not _calls(inner, "AsyncCollectiveStart"):
      return "", computation, i
    for j in inner.instructions.values():
      kind, where, source = _collective(module, inner, j)
      if kind == "all-reduce" and "all-reduce-scatter" in i.attributes:
        kind = "reduce-scatter"
      if kind:
        return kind, where, source
  return "", computation, i


def _is_chained(computation) -> bool:
  return any(
      i.opcode in COLLECTIVES and "chain_id" in i.attributes
      for i in computation.instructions.values()
  )


def _calls(computation, target: str) -> bool:
  return any(
      i.attribute("custom_call_target") == f'"{target}"'
      for i in computation.instructions.values()
      if i.opcode == "custom-call"
  )


def _message(kind, computation, source) -> list[hlo.Shape]:
  """The whole array of a collective: its input, or what it puts together."""
  if kind in ("reduce-scatter", "all-reduce"):
    return [s for o in source.operands for s in computation.shapes(o)]
  if source.opcode.endswith("-start"):  # (operands, results, contexts).
    arrays = [s for s in source.shapes if s.dims]
    return arrays[len(arrays) // 2:]
  return list(source.shapes)


def _products(module, computation, i) -> Iterator[Product]:
  """Matrix products of an instruction and of what it calls."""
  if i.opcode in ("fusion", "async-start"):
    inner = module.computations[i.called("calls")]
    for j in inner.instructions.values():
      yield from _products(module, inner, j)
  elif i.opcode == "dot":
    yield _dot(*(computation.shapes(o)[0].dims for o in i.operands[:2]), i)
  elif i.opcode == "convolution":
    yield _convolution(
        *(computation.shapes(o)[0].dims for o in i.operands[:2]), i
    )


def _dot(lhs, rhs, i) -> Product:
  batch = i.integers("lhs_batch_dims")
  contracted = i.integers("lhs_contracting_dims")
  count = math.prod(lhs[d] for d in batch)
  k = math.prod(lhs[d] for d in contracted)
  return Product(
      m=math.prod(lhs) // (count * k),
      n=math.prod(rhs) // (count * k),
      k=k,
      count=count,
  )


def _convolution(lhs, rhs, i) -> Product:
  """On TPU every product is a convolution, its batch a dilated window.

  A window of size 1 only adds rows; of a larger one the pairs of output and
  window position count that meet an element, not padding or a hole.
  """
  left, right, result = re.split("_|->", i.attribute("dim_labels"))
  out = i.shapes[0].dims
  window = _window(i)
  rows = lhs[left.index("b")]
  count = 1
  for d in range(len(window["size"])):
    size = window["size"][d]
    n_out = out[result.index(str(d))]
    pairs = _valid_pairs(lhs[left.index(str(d))], n_out, window, d)
    if size == 1:
      rows *= pairs
    else:
      count *= pairs
  return Product(
      m=rows, n=rhs[right.index("o")], k=rhs[right.index("i")], count=count
  )


def _window(i) -> dict[str, list]:
  """`size=4x16 stride=3x15 pad=0_0x1_1` -> lists, with defaults."""
  text = i.attribute("window") or ""
  fields = dict(part.split("=") for part in text.split())
  sizes = [int(n) for n in fields.get("size", "").split("x") if n]
  result = {"size": sizes, "pad": [(0, 0)] * len(sizes)}
  for name in ("stride", "lhs_dilate", "rhs_dilate"):
    values = fields.get(name)
    result[name] = (
        [int(n) for n in values.split("x")] if values else [1] * len(sizes)
    )
  if "pad" in fields:
    result["pad"] = [
        tuple(map(int, p.split("_"))) for p in fields["pad"].split("x")
    ]
  return result


def _valid_pairs(n_in, n_out, window, d) -> int:
  """Pairs (output, window position) along one dimension that meet an input."""
  stride, dilate = window["stride"][d], window["lhs_dilate"][d]
  spread, low = window["rhs_dilate"][d], window["pad"][d][0]
  places = (
      o * stride + w * spread - low
      for o in range(n_out)
      for w in range(window["size"][d])
  )
  last = (n_in - 1) * dilate
  return sum(0 <= p <= last and p % dilate == 0 for p in places)


def _traffic(module, computation, i) -> int:
  """Bytes that one run moves between the main memory and the chip."""
  if i.opcode == "custom-call" and (
      not i.operands or "ConcatBitcast" in i.attributes
  ):
    return 0  # AllocateBuffer: memory, no contents. The other: pieces, joined.
  if i.opcode in ("copy-start", "send", "recv"):
    return sum(map(_main_bytes, i.shapes[:2]))
  shapes = [computation.shapes(o) for o in i.operands]
  if i.opcode == "fusion":
    inner = module.computations[i.called("calls")]
    if _calls(inner, "AsyncCollectiveDone"):
      return 0
    reads = [
        min(_read_bytes(module, inner, p.name), sum(map(_main_bytes, s)))
        for p, s in zip(inner.parameters, shapes)
    ]
    return sum(reads) + _written_bytes(module, inner, inner.root, i.shapes)
  if i.opcode == "slice-start":  # ((operand), result, context).
    return i.shapes[-2].padded_bytes + _main_bytes(i.shapes[-2])
  if i.opcode in _SLICES:
    return 2 * sum(map(_main_bytes, i.shapes))
  if i.opcode == "dynamic-update-slice":
    return 2 * sum(map(_main_bytes, shapes[1]))
  if i.opcode == "scatter":
    return 3 * sum(map(_main_bytes, shapes[-1]))
  arrays = [s for operand in shapes for s in operand]
  if i.opcode.endswith("-start"):
    return sum(map(_main_bytes, i.shapes))
  return sum(map(_main_bytes, (*arrays, *i.shapes)))


def _main_bytes(shape: hlo.Shape) -> int:
  return 0 if shape.memory else shape.padded_bytes


def _read_bytes(module, computation, name) -> int:
  """Bytes that a fusion reads of its parameter `name`."""
  total = 0
  for user in computation.users[name]:
    if user.opcode in _SLICES and user.operands[0] == name:
      total += sum(s.padded_bytes for s in user.shapes)
    elif user.opcode == "dynamic-update-slice" and user.operands[0] == name:
      continue  # In place: the rest of it is not read.
    elif user.opcode == "tuple" or (
        user.opcode in COLLECTIVES and _is_chained(computation)
    ):
      continue  # Passed on.
    elif user.opcode == "scatter" and user.operands[0] == name:
      updates = computation.shapes(user.operands[-1])
      total += sum(s.padded_bytes for s in updates)
    elif user.opcode in _LOOK_THROUGH and user.name != computation.root.name:
      total += _read_bytes(module, computation, user.name)
    elif user.opcode == "fusion":
      inner = module.computations[user.called("calls")]
      for place, operand in enumerate(user.operands):
        if operand == name:
          total += _read_bytes(module, inner, inner.parameters[place].name)
    else:
      return sum(s.padded_bytes for s in computation.shapes(name))
  return total


def _written_bytes(module, computation, root, shapes) -> int:
  """Bytes that a fusion writes: of a result updated in place the update."""
  if root.opcode == "tuple":
    return sum(
        _written_bytes(
            module, computation, computation.instructions[o],
            computation.shapes(o) if len(shapes) != len(root.operands)
            else shapes[n:n + 1],
        )
        for n, o in enumerate(root.operands)
    )
  if root.opcode == "parameter" or (
      root.opcode in COLLECTIVES and _is_chained(computation)
  ):
    return 0  # Passed on.
  if root.opcode in _LOOK_THROUGH and root.operands:
    operand = computation.instructions[root.operands[0]]
    if operand.opcode in ("dynamic-update-slice", "scatter", "bitcast"):
      return _written_bytes(module, computation, operand, shapes)
  if root.opcode == "dynamic-update-slice":
    update = computation.shapes(root.operands[1])
    return sum(map(_main_bytes, update))
  if root.opcode == "scatter":
    return sum(map(_main_bytes, computation.shapes(root.operands[-1])))
  return sum(map(_main_bytes, shapes))
