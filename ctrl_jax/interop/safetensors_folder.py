"""A folder's safetensors, in one file or several, read and written by tensor.

The layout is Hugging Face's: `model.safetensors`, or several files and
`model.safetensors.index.json`, which says where each tensor lies.
"""

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import safetensors
from jax import numpy as jnp

from ctrl_jax import errors

FILE = "model.safetensors"
INDEX_FILE = FILE + ".index.json"
# dtype's name here and in the file
DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


class Reader:
  """The tensors of a folder.

  Args:
    folder: where the files lie.

  Raises:
    errors.UserError: a file is missing or damaged, or there are only pickles.
  """

  def __init__(self, folder: pathlib.Path):
    self._folder = folder
    self._open = {}
    self._files = {}  # name -> its file
    for file in _files(folder):
      try:
        f = safetensors.safe_open(file, framework="np")
      except safetensors.SafetensorError as e:
        raise _damaged(file, e) from e
      self._open[file] = f
      for name in f.keys():  # noqa: SIM118 (not a dict)
        if name in self._files:
          raise errors.UserError(
              f"{folder}: the tensor {name!r} lies in two files, {file.name}"
              f" and {self._files[name].name}: delete one of them."
          )
        self._files[name] = file

  @property
  def names(self) -> list[str]:
    """The tensors' names."""
    return list(self._files)

  def shape(self, name: str) -> list[int]:
    """Returns a tensor's shape without reading it."""
    return self._open[self._files[name]].get_slice(name).get_shape()

  def get(self, name: str) -> np.ndarray:
    """Reads a tensor."""
    file = self._files[name]
    try:
      return self._open[file].get_tensor(name)
    except safetensors.SafetensorError as e:
      raise _damaged(file, e) from e


def _damaged(file, e) -> errors.UserError:
  return errors.UserError(
      f"{file} is damaged or not a safetensors file ({e}). Get it again."
  )


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
  if (folder / FILE).is_file():
    return [folder / FILE]
  index = folder / INDEX_FILE
  if index.is_file():
    try:
      places = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
      names = sorted(set(places.values()))
    except (ValueError, KeyError, TypeError, AttributeError,
            RecursionError) as e:
      raise errors.UserError(
          f"{index} is damaged ({e!r}): copy it again."
      ) from e
    for name in names:
      if not isinstance(name, str) or not name.isprintable() or (
          pathlib.PurePath(name).name != name or name in ("", "..")
      ):
        raise errors.UserError(f"{index} names {name!r}, no file beside it.")
      if not (folder / name).is_file():
        raise errors.UserError(
            f"No file {str(folder / name)!r}: copy it there."
        )
    return [folder / name for name in names]
  pickles = [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.h5")]
  if pickles:
    raise errors.UserError(
        f"{str(folder)!r} has no {FILE}, and {pickles[0].name} is not read (a"
        " pickle can run any program). Where transformers is installed, load"
        " the folder there and call model.save_pretrained(NEW_FOLDER), which"
        " writes safetensors."
    )
  raise errors.UserError(f"{str(folder)!r} has no {FILE}: copy it there.")


def write(
    folder: pathlib.Path,
    shapes: Mapping[str, Sequence[int]],
    get: Callable[[str], np.ndarray],
    *,
    dtype: str = "float32",
    shard_bytes: int | None = None,
) -> None:
  """Writes tensors one after the other; memory holds one at a time.

  Args:
    folder: where to; exists.
    shapes: name -> shape, in the order of the files.
    get: returns a tensor.
    dtype: "float32", "float16" or "bfloat16".
    shard_bytes: size of a file's tensors at most, unless one tensor is larger;
      None for one file.

  Raises:
    errors.UserError: an unknown dtype, a size below 1, or a value that float16
      cannot hold.
  """
  if dtype not in DTYPES:
    raise errors.UserError(
        f"dtype={dtype!r} is unknown. {errors.nearest(dtype, DTYPES)}"
    )
  if shard_bytes is not None and shard_bytes < 1:
    raise errors.UserError(f"A file's size, {shard_bytes}, must be above 0.")
  itemsize = jnp.dtype(dtype).itemsize
  shards, size = [[]], 0
  for name, shape in shapes.items():
    added = int(np.prod(shape)) * itemsize
    if shards[-1] and shard_bytes is not None and size + added > shard_bytes:
      shards.append([])
      size = 0
    shards[-1].append(name)
    size += added
  places, total = {}, 0
  for i, names in enumerate(shards, 1):
    file = FILE
    if len(shards) > 1:
      file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
    with errors.naming(folder / file):
      total += _write_file(
          folder / file, {n: shapes[n] for n in names}, get, dtype
      )
    places |= dict.fromkeys(names, file)
  if len(shards) > 1:
    index = {"metadata": {"total_size": total}, "weight_map": places}
    with errors.naming(folder / INDEX_FILE):
      (folder / INDEX_FILE).write_text(
          json.dumps(index, indent=2) + "\n", encoding="utf-8"
      )


def _write_file(file, shapes, get, dtype) -> int:
  """Writes one file; returns the bytes of its tensors."""
  header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
  at = 0
  for name, shape in shapes.items():
    end = at + int(np.prod(shape)) * jnp.dtype(dtype).itemsize
    header[name] = {
        "dtype": DTYPES[dtype], "shape": list(shape), "data_offsets": [at, end]
    }
    at = end
  head = json.dumps(header).encode("utf-8")
  head += b" " * (-len(head) % 8)  # Tensors begin at multiples of 8.
  with file.open("wb") as f:
    f.write(len(head).to_bytes(8, "little") + head)
    for name, shape in shapes.items():
      x = np.asarray(get(name))
      assert x.shape == tuple(shape), (name, x.shape, shape)
      with np.errstate(over="ignore"):
        stored = np.ascontiguousarray(x.astype(jnp.dtype(dtype)))
      if not np.isfinite(stored.astype(np.float32)).all():
        raise errors.UserError(
            f"{name} has values that {dtype} cannot hold: export as float32 or"
            " bfloat16."
        )
      f.write(stored.tobytes())
  return at
