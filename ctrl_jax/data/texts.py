"""The text beside the records: for evaluation, and for baselines."""

import gzip
import json
import pathlib
from collections.abc import Iterable

from ctrl_jax.data import documents
from ctrl_jax.data.sources import SPLITS

# Training text kept for baselines, a code: documents and characters at most.
_KEPT_DOCUMENTS = 2000
_KEPT_CHARS = 4_000_000


def sample() -> documents.Sample:
  """Returns an empty sample of a code's training documents."""
  return documents.Sample(_KEPT_CHARS, _size)


def _size(text: str) -> int:
  return max(len(text), _KEPT_CHARS // _KEPT_DOCUMENTS)


class Texts:
  """The documents' text: all that is held out, a sample of the rest.

  Args:
    folder: where to; it is made.
    codes: of all documents, in the order of the samples.
  """

  def __init__(self, folder: pathlib.Path, codes: Iterable[str]):
    folder.mkdir()
    # Made here: no time stamp or file name, so the same text is the same file.
    self._files = {
        split: gzip.GzipFile(folder / f"{split}.jsonl.gz", "wb", 6, mtime=0)
        for split in SPLITS
    }
    self._samples = {code: sample() for code in codes}

  def add(self, split: str, code: str, text: str, digest: bytes) -> None:
    """Takes a document."""
    if split != "train":
      self._write(split, code, text)
      return
    self._samples[code].add(digest, text)

  def _write(self, split: str, code: str, text: str) -> None:
    line = json.dumps({"code": code, "text": text}, ensure_ascii=False) + "\n"
    self._files[split].write(line.encode())

  def finish(self) -> None:
    """Writes the samples and closes the files."""
    for code, kept in self._samples.items():
      for text in kept.texts():
        self._write("train", code, text)
    for file in self._files.values():
      file.close()
