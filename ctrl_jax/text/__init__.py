"""Strings <-> token ids: one small interface, several kinds of tokenizer."""

import json
import pathlib

from ctrl_jax import errors
from ctrl_jax.text.tokenizer import CONFIG_FILE, Tokenizer

__all__ = ["CONFIG_FILE", "Tokenizer", "load_tokenizer"]


def load_tokenizer(path) -> Tokenizer:
  """Returns the tokenizer of a folder that `Tokenizer.save` wrote.

  Args:
    path: folder with `tokenizer_config.json`, whose field `kind` says which
      tokenizer it is, and that kind's own files.

  Raises:
    errors.UserError: no such folder, a file is missing or damaged, or the kind
      is unknown.
  """
  folder = pathlib.Path(path)
  config = _read_config(folder / CONFIG_FILE)
  kind = str(config.get("kind", ""))
  if kind == "sentencepiece":
    from ctrl_jax.text import sentencepiece  # Only what is used is imported.

    return sentencepiece.load(folder, config)
  raise errors.UserError(
      f"{folder / CONFIG_FILE}: unknown kind of tokenizer {kind!r}."
      f" {errors.nearest(kind, ['sentencepiece'])}"
  )


def _read_config(file: pathlib.Path) -> dict:
  if not file.is_file():
    raise errors.UserError(
        f"No tokenizer in {str(file.parent)!r}: {file.name} is missing. Give"
        " the folder `tokenizer` of a prepared data set."
    )
  try:
    config = json.loads(file.read_text(encoding="utf-8"))
  except ValueError as e:
    raise errors.UserError(f"{file} is not JSON: {e}.") from e
  if not isinstance(config, dict):
    raise errors.UserError(f"{file} holds no JSON object.")
  return config
