"""Prompts to continue: of a command line, and of files."""

import dataclasses
import json
from collections.abc import Sequence

from ctrl_jax import errors
from ctrl_jax.data import files


@dataclasses.dataclass(frozen=True)
class Prompt:
  """A text to continue, its control code (None: none), its latent's name."""

  text: str
  code: str | None
  latent: str = ""


def read(
    texts: Sequence[str], file: str, code: str | None
) -> list[Prompt]:
  """Returns the prompts of the command line, then those of the file.

  Raises:
    errors.UserError: nothing to continue, or a file that cannot be read.
  """
  prompts = [Prompt(text, code) for text in texts]
  if file:
    prompts += _read_file(files.expand(file), code)
  elif not prompts:
    prompts = [Prompt("", code)]
  for prompt in prompts:
    if not prompt.text and prompt.code is None:
      raise errors.UserError(
          "The prompt is empty and there is no control code: give --prompt=TEXT"
          " or --code=CODE."
      )
  return prompts


def _read_file(path: str, code: str | None) -> list[Prompt]:
  is_json = path.removesuffix(".gz").endswith(".jsonl")
  prompts = []
  for number, line in enumerate(files.lines(path), 1):
    if not line.strip():
      continue
    if not is_json:
      prompts.append(Prompt(line.rstrip("\r\n"), code))
      continue
    try:
      record = json.loads(line)
      text, own = record["prompt"], record.get("code") or code
    except (
        ValueError, KeyError, TypeError, AttributeError, RecursionError
    ) as e:
      raise errors.UserError(
          f"{path}, line {number}: expected a JSON object with the field"
          ' "prompt".'
      ) from e
    if not isinstance(text, str) or not isinstance(own, str | None):
      raise errors.UserError(
          f'{path}, line {number}: "prompt" and "code" must be strings.'
      )
    prompts.append(Prompt(text, own))
  if not prompts:
    raise errors.UserError(f"{path} has no prompts: write one a line.")
  return prompts
