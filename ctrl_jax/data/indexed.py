"""TFRecords of the original tool, at random: records where they lie.

A folder with such an index has, beside manifest and tokenizer:

  tfrecords.json   the files with their sizes, the codes' ids, the width
  SPLIT.npy        int64 [N, 3]: file, the record's place in it, source
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
    places: dict[str, list[tuple[int, int, int]]],
) -> None:
  """Writes an index.

  Args:
    folder: where to; exists.
    files: TFRecord files that are not gzipped; relative ones are in `folder`.
    code_ids: each source's.
    width: tokens a record.
    places: split -> (file, byte, source) of each record.
  """
  folder = pathlib.Path(folder)
  for split, rows in places.items():
    np.save(folder / f"{split}.npy", np.array(rows, np.int64).reshape(-1, 3))
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
    errors.UserError: a TFRecord file is gone or has another size; reading a
      damaged record raises it too.
  """
  folder = pathlib.Path(folder)
  content = json.loads((folder / FILE).read_text(encoding="utf-8"))
  files = []
  for info in content["files"]:
    file = folder / info["path"]
    size = file.stat().st_size if file.is_file() else None
    if size != info["bytes"]:
      state = "is gone" if size is None else f"has {size} bytes"
      raise errors.UserError(
          f"{str(file)!r} {state} where {info['bytes']} bytes were indexed: put"
          f" it back, or delete {str(folder)!r} to index anew."
      )
    files.append(file)
  places = np.load(folder / f"{split}.npy")
  return _Records(files, content["code_ids"], content["width"], places)


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
    file, at, source = map(int, self._places[index])
    tokens = tfrecords.row_at(self._files[file], at)
    code_ids = self._code_ids[source]
    text = tokens[len(code_ids):]
    rows = sequences.cut(
        text, np.ones(text.size, np.uint8), code_ids, self._width
    )
    if len(rows.length) != 1:
      raise errors.UserError(
          f"{self._files[file]}, byte {at}: the record is another than the one"
          " that was indexed. Put the file back, or delete the index."
      )
    return dict(
        tokens=rows.tokens[0], weights=rows.weights[0],
        length=rows.length[0], source=np.int32(source),
    )
