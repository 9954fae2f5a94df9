"""Models by their name on the Hugging Face hub."""

import hashlib
import os
import pathlib
import re

import huggingface_hub
import huggingface_hub.errors

from ctrl_jax import errors

# Nothing else is fetched: no pickles, no weights of other frameworks.
WANTED = ("*.json", "*.safetensors", "merges.txt", "vocab.bpe", "codes",
           "vocab", "control_codes.txt", "sentencepiece.model")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def is_name(path: str) -> bool:
  """Whether `path` can be a name on the hub and is no place here.

  `runs/dmeo` is none where there is a folder `runs`: a slip, not a name.
  """
  here = pathlib.Path(path)
  if here.exists() or not _NAME.fullmatch(path):
    return False
  return "/" not in path or not here.parent.exists()


def fetch(name: str) -> pathlib.Path:
  """Fetches a model's files into the hub's cache; returns its folder.

  huggingface_hub resumes what was cut short, and without a network takes what
  the cache holds. It compares sizes; the hashes, by which it names the files,
  are compared here.

  Raises:
    errors.UserError: there is no such model, no way to it, or a file that is
      not what the hub has.
  """
  try:
    folder = pathlib.Path(
        huggingface_hub.snapshot_download(name, allow_patterns=list(WANTED))
    )
  except (
      huggingface_hub.errors.HfHubHTTPError,
      huggingface_hub.errors.LocalEntryNotFoundError,
      huggingface_hub.errors.HFValidationError,
      OSError,
  ) as e:
    reason = " ".join(str(e).split())[:120]
    raise errors.UserError(
        f"{name!r} is no folder here and could not be fetched from the Hugging"
        " Face hub. Check the path, or the name and the network"
        f" ({type(e).__name__}: {reason}...)."
    ) from e
  for file in sorted(folder.iterdir()):
    _verify(file)
  return folder


def _verify(file: pathlib.Path) -> None:
  """Compares a file with its hash, which the blob it is a link to is named by.

  That is SHA-256 for large files, Git's for small ones.
  """
  if not file.is_symlink():
    return
  name = pathlib.PurePath(os.readlink(file)).name
  if not re.fullmatch("[0-9a-f]{64}|[0-9a-f]{40}", name):
    return
  digest = hashlib.sha256() if len(name) == 64 else hashlib.sha1(
      b"blob %d\0" % file.stat().st_size
  )
  with open(file, "rb") as f:
    while chunk := f.read(1 << 24):
      digest.update(chunk)
  if digest.hexdigest() != name:
    raise errors.UserError(
        f"{str(file)!r} is not what the hub has: delete {str(file.resolve())!r}"
        " and this link, and the same command fetches it again."
    )
