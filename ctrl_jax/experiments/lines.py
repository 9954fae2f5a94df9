"""Measurements on disk: one JSON line each, a file a method and seed."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ctrl_jax import errors
from ctrl_jax.evaluation import output

Line = Mapping[str, Any]


def read(file: pathlib.Path) -> list[dict[str, Any]]:
  """Returns the measurements in a file; none if there is none.

  Raises:
    errors.UserError: a damaged line.
  """
  if not file.exists():
    return []
  found = []
  for number, text in enumerate(file.read_text(encoding="utf-8").split("\n")):
    if not text:
      continue
    try:
      found.append(json.loads(text))
    except ValueError as e:
      raise errors.UserError(
          f"{file}, line {number + 1} is damaged ({e}): delete it, and the same"
          " command measures it again."
      ) from e
  return found


def append(file: pathlib.Path, line: Mapping[str, Any]) -> None:
  """Adds a measurement, all of it or nothing."""
  lines = [*read(file), line]
  text = "".join(
      json.dumps(x, ensure_ascii=False, allow_nan=False) + "\n" for x in lines
  )
  output.write_bytes(file, text.encode("utf-8"))


def collect(folder) -> dict[str, list[Line]]:
  """Returns method -> its lines, all seeds, in the order of the steps."""
  found = {}
  for file in sorted(pathlib.Path(folder).glob("*.jsonl")):
    for line in read(file):
      found.setdefault(line["method"], []).append(line)
  for lines in found.values():
    lines.sort(key=lambda line: (line["step"], line["seed"]))
  return found


def last(of_method: Sequence[Line]) -> list[Line]:
  """Returns a method's lines at its latest step, one a seed."""
  return [x for x in of_method if x["step"] == of_method[-1]["step"]]
