"""TFRecords of the original tool, at random: records where they lie.

A folder with such an index has, beside manifest and tokenizer:

  tfrecords.json   the files with their sizes, the codes' ids, the width
  SPLIT.npy        int64 [N, 4]: file, the record's place in it, source, and
                   the record's CRC-32C, as the file has it

The files themselves are not read when training starts. Their sizes are
compared then, and each record's checksum when it is read: another record in
its place, with a good checksum of its own, is noticed.
"""

import json
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from ctrl_jax import errors
from ctrl_jax.data import sequences
from ctrl_jax.interop import tfrecords

FILE = "tfrecords.json"


def is_index(folder) -> bool:
  """Whether a data set's records are such an index."""
  return (pathlib.Path(folder) / FILE).is_file()


def write(
    folder,
    files: Sequence[str],
    code_ids: Sequence[Sequence[int]],
    width: int,
    places: dict[str, list[tuple[int, int, int, int]]],
) -> None:
  """Writes an index.

  Args:
    folder: where to; exists.
    files: TFRecord files that are not gzipped; relative ones are in `folder`.
    code_ids: each source's.
    width: tokens a record.
    places: split -> (file, byte, source, checksum) of each record.
  """
  folder = pathlib.Path(folder)
  for split, rows in places.items():
    np.save(folder / f"{split}.npy", np.array(rows, np.int64).reshape(-1, 4))
  content = dict(
      files=[
          dict(path=file, bytes=os.path.getsize(folder / file))
          for file in files
      ],
      code_ids=[list(map(int, ids)) for ids in code_ids],
      width=width,
  )
  text = json.dumps(content, indent=1) + "\n"
  (folder / FILE).write_text(text, encoding="utf-8")


def open_split(folder, split: str) -> Sequence[dict]:
  """Returns a random-access sequence of records, as `records.open_split` does.

  Raises:
    errors.UserError: the index is damaged or of an earlier version, or a
      TFRecord file is gone or has another size; reading a damaged record or
      another than was indexed raises it too.
  """
  folder = pathlib.Path(folder)
  try:
    content = json.loads((folder / FILE).read_text(encoding="utf-8"))
    sizes = [(folder / x["path"], int(x["bytes"])) for x in content["files"]]
    code_ids, width = content["code_ids"], int(content["width"])
    places = np.load(folder / f"{split}.npy")
    if places.dtype != np.int64 or places.shape[1:] != (4,):
      raise ValueError(f"{split}.npy has the shape {places.shape}")
  except (
      ValueError, KeyError, TypeError, OSError, EOFError, RecursionError
  ) as e:
    raise errors.UserError(
        f"The index in {str(folder)!r} is damaged, or of an earlier version"
        f" ({e!r}): delete the folder to index anew."
    ) from e
  for file, wanted in sizes:
    size = file.stat().st_size if file.is_file() else None
    if size != wanted:
      state = "is gone" if size is None else f"has {size} bytes"
      raise errors.UserError(
          f"{str(file)!r} {state} where {wanted} bytes were indexed: put it"
          f" back, or delete {str(folder)!r} to index anew."
      )
  files = [file for file, _ in sizes]
  return _Records(files, code_ids, width, places)


class _Records(Sequence):
  """Records, each read when it is asked for."""

  def __init__(self, files, code_ids, width: int, places: np.ndarray):
    self._files = files
    self._code_ids = code_ids
    self._width = width
    self._places = places

  def __len__(self) -> int:
    return len(self._places)

  def __getitem__(self, index: int) -> dict:
    file, at, source, checksum = map(int, self._places[index])
    found, tokens = tfrecords.row_at(self._files[file], at)
    if found != checksum:
      raise errors.UserError(
          f"{self._files[file]}, byte {at}: the record is another than the one"
          " that was indexed. Put the file back, or delete the index."
      )
    code_ids = self._code_ids[source]
    text = tokens[len(code_ids):]
    rows = sequences.cut(
        text, np.ones(text.size, np.uint8), code_ids, self._width
    )
    return dict(
        tokens=rows.tokens[0], weights=rows.weights[0],
        length=rows.length[0], source=np.int32(source),
    )
