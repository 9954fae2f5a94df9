"""A plan as one dictionary (JSON) and as text."""

from typing import Any

from ctrl_jax.planning import bounds as bounds_lib
from ctrl_jax.planning import calibration, chips
from ctrl_jax.planning import compile as compile_lib

_GIB = 2**30


def memory(memory: compile_lib.Memory, chip: chips.Chip | None) -> dict:
  """Bytes of one device, and whether they fit; `fits` is None on CPU."""
  return {
      "arguments": memory.arguments,
      "temporaries": memory.temporaries,
      "donated": memory.donated,
      "peak": memory.peak,
      "available": chip.memory if chip else None,
      "fits": memory.peak <= chip.memory if chip else None,
  }


def training(
    program: compile_lib.Program,
    bounds: bounds_lib.Bounds,
    chip: chips.Chip | None,
    *,
    tokens: int,
    model_flops: float,
    num_steps: int,
) -> dict[str, Any]:
  """What a training step takes.

  Args:
    program: the compiled step.
    bounds: its bounds.
    chip: None leaves out what needs its figures.
    tokens: of a global batch.
    model_flops: of a global batch, without recomputation, all devices.
    num_steps: of the whole run.
  """
  result = {
      "memory": memory(program.memory, chip),
      "flops": bounds.flops,
      "padded_flops": bounds.padded_flops,
      "model_flops": model_flops / len(program.devices),
      "bytes": bounds.bytes,
      "collectives": [
          {"kind": c.kind, "group": c.group, "runs": c.runs, "bytes": c.bytes,
           "seconds": _round(c.seconds)}
          for c in bounds.collectives
      ],
  }
  if chip is None:
    return result
  peak = chip.peak * len(program.devices)

  def speed(seconds):
    return {
        "seconds": _round(seconds),
        "tokens_per_second": round(tokens / seconds),
        "mfu": _round(model_flops / peak / seconds),
        "days": _round(num_steps * seconds / 86_400),
    }

  run = calibration.LEVANTER
  result["seconds"] = {
      "products": _round(bounds.product_seconds),
      "other_memory": _round(bounds.other_seconds),
      "collectives": _round(bounds.collective_seconds),
  }
  result["no_overlap"] = speed(bounds.seconds)
  result["full_overlap"] = speed(bounds.overlap_seconds)
  result["expected"] = speed(bounds.seconds / run.ratio)
  if chip is not chips.CHIPS["v3"]:  # Of which Levanter's run is.
    result["expected_by_maxtext"] = speed(
        bounds.seconds / calibration.MAXTEXT.ratio
    )
  if bounds.compiler_seconds:
    seconds = bounds.compiler_seconds
    result["compiler_estimate"] = speed(seconds)
    result["expected_by_compiler"] = speed(seconds / run.compiler_ratio)
  return result


def decoding(
    program: compile_lib.Program,
    bounds: bounds_lib.Bounds,
    chip: chips.Chip | None,
    batch: int,
    num_steps: int,
) -> dict[str, Any]:
  """What one of a program's decoding steps takes on one device.

  `flops` are of matrix products: for a batch of 1 the compiler writes them as
  sums over rows, and there may be none. What such a step takes is its traffic.
  """
  result = {
      "batch": batch,
      "memory": memory(program.memory, chip),
      "flops": bounds.flops // num_steps,
      "bytes": bounds.bytes // num_steps,
  }
  if chip is not None:
    seconds = bounds.seconds / num_steps
    result["seconds"] = _round(seconds)
    result["tokens_per_second"] = round(batch / seconds)
  return result


def _round(x: float, digits: int = 4) -> float:
  return float(f"{x:.{digits}g}")


def text(plan: dict[str, Any]) -> str:
  """The plan for reading."""
  some = plan["trained"] != plan["parameters"]
  trained = f", of which {plan['trained']:,} train" if some else ""
  lines = [
      f"{plan['config']} on {plan['topology']}: {plan['devices']} devices, mesh"
      f" {plan['mesh']}, {plan['parameters']:,} parameters{trained}.",
      f"A step: {plan['batch_size']} sequences of {plan['sequence_length']}"
      f" tokens, accumulate {plan['accumulate']}, remat {plan['remat']!r},"
      f" loss_chunk {plan['loss_chunk']}.",
      "",
  ]
  train = plan["training"]
  lines += _memory_lines(train["memory"])
  if plan["topology"].startswith("gpu:"):
    lines.append(
        "                 (temporaries and traffic are those of a program for"
        " a CPU, which widens bfloat16)"
    )
  if "flops" in train:
    lines += _work_lines(train)
  if "no_overlap" in train:
    lines += _speed_lines(train)
  if plan["instead"] is not None:
    lines += ["", _instead_line(plan["instead"])]
  if plan["decoding"]:
    alone = plan["task"] != "language_model"
    model = " with the model beneath alone" if alone else ""
    lines += [
        "",
        f"Decoding{model} on one device, greedy, at most (no measured run says"
        " what of it to expect):",
    ]
    lines += map(_decoding_line, plan["decoding"])
  return "\n".join(lines)


def _memory_lines(m: dict) -> list[str]:
  if "temporaries" not in m:
    return [
        f"Does NOT fit: it needs {_gib(m['peak'])} at least, of"
        f" {_gib(m['available'])} a device."
    ]
  lines = [
      f"Memory a device  arguments {_gib(m['arguments'])} (donated"
      f" {_gib(m['donated'])}), temporaries {_gib(m['temporaries'])}",
      f"                 peak {_gib(m['peak'])}",
  ]
  if m["available"]:
    verdict = "fits" if m["fits"] else "does NOT fit"
    lines[1] += f" of {_gib(m['available'])}: {verdict}"
  return lines


def _work_lines(train: dict) -> list[str]:
  lines = [
      f"Work a device    {_si(train['flops'])}FLOP in matrix products"
      f" ({_si(train['padded_flops'])} as padded,"
      f" {_si(train['model_flops'])} the model's);"
      f" {_si(train['bytes'])}B of memory traffic"
  ]
  for c in train["collectives"]:
    time = f", {1e3 * c['seconds']:.1f} ms" if c["seconds"] else ""
    lines.append(
        f"                 {c['kind']} among {c['group']}: {c['runs']} runs,"
        f" {_si(c['bytes'])}B{time}"
    )
  return lines


def _speed_lines(train: dict) -> list[str]:
  s = {k: 1e3 * v for k, v in train["seconds"].items()}
  lines = [
      f"Time a step      products {s['products']:.0f} ms + other memory"
      f" {s['other_memory']:.0f} ms + collectives {s['collectives']:.0f} ms",
      "                                ms   tokens/s    MFU   days",
  ]
  run, other = calibration.LEVANTER, calibration.MAXTEXT
  names = {
      "no_overlap": "bound, no overlap",
      "full_overlap": "bound, full overlap",
      "expected": f"expected, {run.ratio:.2f} x bound",
      "expected_by_maxtext": f"expected, {other.ratio:.2f} x bound",
      "compiler_estimate": "compiler's estimate",
      "expected_by_compiler": f"expected, {run.compiler_ratio:.2f} x that",
  }
  for key, name in names.items():
    if key in train:
      x = train[key]
      lines.append(
          f"  {name:<23} {1e3 * x['seconds']:8.1f} {x['tokens_per_second']:10,}"
          f" {100 * x['mfu']:5.1f}% {x['days']:6.2f}"
      )
  lines.append(
      f"  (expected: as {run.name} did, where {100 * run.measured:.1f}% MFU was"
      f" measured; its bound is {100 * run.bound:.1f}%, the compiler's estimate"
      f" {100 * run.compiler:.1f}%)"
  )
  lines.append("  (those runs say nothing of the bound with full overlap)")
  if "expected_by_maxtext" in train:
    lines.append(
        f"  ({other.ratio:.2f}: as {other.name} did,"
        f" {100 * other.measured:.1f}% of {100 * other.bound:.1f}%)"
    )
  return lines


def _instead_line(instead: dict) -> str:
  if "overrides" not in instead:
    return "No setting of remat, accumulate or batch that was tried fits."
  flags = " ".join(f"--config.{k}={v}" for k, v in instead["overrides"].items())
  return f"This fits, with a peak of {_gib(instead['peak'])}: {flags}"


def _decoding_line(d: dict) -> str:
  line = f"  batch {d['batch']:>4}: "
  if "bytes" not in d:
    return f"{line}does NOT fit ({_gib(d['memory']['peak'])} at least)"
  line += f"{_gib(d['memory']['peak'])}, {_si(d['bytes'])}B of traffic"
  if "seconds" in d:
    line += (
        f", {1e3 * d['seconds']:.2f} ms, {d['tokens_per_second']:,} tokens/s"
    )
  return line


def _si(x: float) -> str:
  """1.5e9 -> "1.50 G"."""
  for exponent, prefix in ((15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k")):
    if x >= 10**exponent:
      return f"{x / 10**exponent:.2f} {prefix}"
  return f"{x:.0f} "


def _gib(n: int | None) -> str:
  return "an unknown amount" if not n else f"{n / _GIB:.2f} GiB"


