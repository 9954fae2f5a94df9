"""Strings <-> token ids: one small interface, several kinds of tokenizer."""

import json
import pathlib

from ctrl_jax import errors
from ctrl_jax.text.tokenizer import CONFIG_FILE, Tokenizer

__all__ = ["CONFIG_FILE", "Tokenizer", "has_tokenizer", "load_tokenizer"]

# The folder that data sets and workdirs have for it.
_INSIDE = "tokenizer"


def load_tokenizer(path) -> Tokenizer:
  """Returns the tokenizer of a folder or file.

  Args:
    path: a folder that `Tokenizer.save` wrote (its `tokenizer_config.json` has
      a field `kind`); or a workdir or data set, which have one in `tokenizer`;
      or a folder with CTRL's files, `codes` and `vocab` as
      released or `vocab.json` and `merges.txt` as Hugging Face keeps them; or
      one with GPT-2's `vocab.json` and `merges.txt` (and `added_tokens.json`,
      if there is one), or `encoder.json` and `vocab.bpe`; or one with Hugging
      Face's `tokenizer.json`. Of files, a GGUF model, or llama2.c's
      `tokenizer.bin`.

  Raises:
    errors.UserError: no such folder, a file is missing or damaged, the kind is
      unknown, or a workdir's `config.json` names another tokenizer.
  """
  folder = _folder(path)
  if folder.is_file():
    return _load_file(folder)
  tok = _load_folder(folder)
  _check_hash(tok, folder)
  return tok


def _check_hash(tok: Tokenizer, folder: pathlib.Path) -> None:
  """Refuses another tokenizer than that of the workdir around it."""
  workdir = folder.absolute().parent / "config.json"
  if folder.absolute().name != _INSIDE or not workdir.is_file():
    return
  try:
    fields = json.loads(workdir.read_text(encoding="utf-8"))
    wanted = fields.get("tokenizer_hash")
  except (ValueError, AttributeError, RecursionError):
    return  # No workdir's; what reads models says what is wrong with it.
  if wanted is not None and tok.hash != wanted:
    raise errors.UserError(
        f"The tokenizer in {str(folder)!r} is not the one that the model was"
        f" trained with (its hash is not that in {workdir.name}): restore the"
        " folder from a copy, or from the data set."
    )


def _load_folder(folder: pathlib.Path) -> Tokenizer:
  config = {}
  # Only what is used is imported.
  if (folder / CONFIG_FILE).is_file() or not has_tokenizer(folder):
    config = _read_config(folder / CONFIG_FILE)
  kind = str(config.get("kind", ""))
  if kind == "fastbpe" or (not kind and _has_fastbpe(folder)):
    from ctrl_jax.text import fastbpe_files

    return fastbpe_files.load(folder, config)
  if kind == "sentencepiece":
    from ctrl_jax.text import sentencepiece

    return sentencepiece.load(folder, config)
  if kind == "score_bpe":
    from ctrl_jax.text import score_bpe

    return score_bpe.load(folder, config)
  from ctrl_jax.text import byte_bpe, tokenizer_json

  if kind == "tokenizer_json" or (
      not kind and tokenizer_json.is_needed(folder)
  ):
    return tokenizer_json.load(folder, config)
  if kind == "byte_bpe" or (not kind and byte_bpe.find(folder)):
    return byte_bpe.load(folder, config)
  raise errors.UserError(
      f"{folder / CONFIG_FILE}: unknown kind of tokenizer {kind!r}."
      f" {errors.nearest(kind, _KINDS)}"
  )


_KINDS = ("sentencepiece", "fastbpe", "byte_bpe", "score_bpe", "tokenizer_json")


def _load_file(file: pathlib.Path) -> Tokenizer:
  from ctrl_jax.interop import gguf_file, gguf_tokenizer, llama2c

  if gguf_file.find(file) is not None:
    return gguf_tokenizer.load(file)
  return llama2c.load_tokenizer(file)


def has_tokenizer(path) -> bool:
  """Whether `load_tokenizer` would find one at a path (maybe damaged)."""
  folder = _folder(path)
  if folder.is_file():
    from ctrl_jax.interop import gguf_file, gguf_tokenizer

    return gguf_file.find(folder) is None or gguf_tokenizer.has_tokenizer(
        folder
    )
  return _has_any(folder)


def _folder(path) -> pathlib.Path:
  """Returns where a path's tokenizer lies: there, or in `tokenizer`."""
  folder = pathlib.Path(path)
  inside = folder / _INSIDE
  return inside if not _has_any(folder) and _has_any(inside) else folder


def _has_any(folder: pathlib.Path) -> bool:
  return (folder / CONFIG_FILE).is_file() or _has_files(folder)


def _has_files(folder: pathlib.Path) -> bool:
  from ctrl_jax.text import byte_bpe

  return (
      _has_fastbpe(folder)
      or byte_bpe.find(folder) is not None
      or (folder / "tokenizer.json").is_file()
  )


def _has_fastbpe(folder: pathlib.Path) -> bool:
  if (folder / "codes").is_file() and (folder / "vocab").is_file():
    return True
  merges = folder / "merges.txt"
  if not (merges.is_file() and (folder / "vocab.json").is_file()):
    return False
  with merges.open("rb") as f:  # GPT-2's has no such mark.
    return b"</w>" in f.read(4096)


def _read_config(file: pathlib.Path) -> dict:
  if not file.is_file():
    raise errors.UserError(
        f"No tokenizer in {str(file.parent)!r}: {file.name} is missing. Give"
        " the folder `tokenizer` of a prepared data set, or lay a tokenizer's"
        " files beside the weights: CTRL's `codes` and `vocab`, or"
        " `vocab.json` and `merges.txt`."
    )
  try:
    config = json.loads(file.read_text(encoding="utf-8"))
  except (ValueError, RecursionError) as e:
    raise errors.UserError(f"{file} is not JSON: {e}.") from e
  if not isinstance(config, dict):
    raise errors.UserError(f"{file} holds no JSON object.")
  return config
