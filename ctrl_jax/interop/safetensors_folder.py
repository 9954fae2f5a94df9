"""A folder's safetensors, in one file or several, read and written by tensor.

The layout is Hugging Face's: `model.safetensors`, or several files and
`model.safetensors.index.json`, which says where each tensor lies.
"""

import contextlib
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
# Numbers that are converted or compared together.
_BLOCK = 1 << 22


class Reader:
  """The tensors of a folder.

  Args:
    folder: where the files lie.

  Raises:
    errors.UserError: a file is missing or damaged, or there are only pickles.
  """

  def __init__(self, folder: pathlib.Path):
    self._files = {}  # name -> its file
    self._shapes = {}
    files, listed = _files(folder)
    for file in files:
      with _opened(file) as f:
        for name in f.keys():  # noqa: SIM118 (not a dict)
          if name in self._files:
            raise errors.UserError(
                f"{folder}: the tensor {name!r} lies in two files, {file.name}"
                f" and {self._files[name].name}: delete one of them."
            )
          self._files[name] = file
          self._shapes[name] = list(f.get_slice(name).get_shape())
    lacking = sorted(set(listed) - set(self._files))
    if lacking:
      raise errors.UserError(
          f"{folder / INDEX_FILE} lists tensors that no file holds"
          f" ({', '.join(lacking[:3])}): copy all of the folder's files again."
      )

  @property
  def names(self) -> list[str]:
    """The tensors' names."""
    return list(self._files)

  def shape(self, name: str) -> list[int]:
    """Returns a tensor's shape without reading it."""
    return self._shapes[name]

  def get(self, name: str) -> np.ndarray:
    """Reads a tensor."""
    # Opened anew: what was read of a file stays in memory until it is closed.
    with _opened(self._files[name]) as f:
      return f.get_tensor(name)

  def equal(self, a: str, b: str) -> bool:
    """Whether two tensors hold the same, which takes little memory."""
    if self.shape(a) != self.shape(b):
      return False
    if not self.shape(a):
      return np.array_equal(self.get(a), self.get(b))
    num_rows = self.shape(a)[0]
    step = max(1, _BLOCK * num_rows // max(1, int(np.prod(self.shape(a)))))
    return all(
        np.array_equal(*(self._rows(x, i, i + step) for x in (a, b)))
        for i in range(0, num_rows, step)
    )

  def _rows(self, name: str, start: int, stop: int) -> np.ndarray:
    with _opened(self._files[name]) as f:
      return f.get_slice(name)[start : min(stop, self.shape(name)[0])]


@contextlib.contextmanager
def _opened(file: pathlib.Path):
  try:
    with safetensors.safe_open(file, framework="np") as f:
      yield f
  except safetensors.SafetensorError as e:
    raise _damaged(file, e) from e


def _damaged(file, e) -> errors.UserError:
  return errors.UserError(
      f"{file} is damaged or not a safetensors file ({e}). Get it again."
  )


def _files(folder: pathlib.Path) -> tuple[list[pathlib.Path], list[str]]:
  """The files, and the tensors that an index says they hold."""
  if (folder / FILE).is_file():
    return [folder / FILE], []
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
    return [folder / name for name in names], list(places)
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
    order: Sequence[str] | None = None,
    dtype: str = "float32",
    shard_bytes: int | None = None,
) -> None:
  """Writes tensors one after the other; memory holds one at a time.

  Args:
    folder: where to; exists.
    shapes: name -> shape, in the order of the files.
    get: returns a tensor.
    order: the names in the order in which to get them; None for the files'.
    dtype: "float32", "float16" or "bfloat16".
    shard_bytes: size of a file's tensors at most, unless one tensor is larger;
      None for one file.

  Raises:
    errors.UserError: an unknown dtype, a size below 1, a value that is not
      finite, or one that float16 cannot hold.
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
  places, total = {}, 0  # name -> (file, byte)
  for i, names in enumerate(shards, 1):
    file = FILE
    if len(shards) > 1:
      file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
    with errors.naming(folder / file):
      total += _write_header(
          folder / file, {n: shapes[n] for n in names}, dtype, places
      )
  for name in order or shapes:
    file, at = places[name]
    x = np.asarray(get(name))
    assert x.shape == tuple(shapes[name]), (name, x.shape, shapes[name])
    with errors.naming(file), file.open("r+b") as f:
      f.seek(at)
      _write_tensor(f, name, x, dtype)
    del x  # Before the next one is made.
  if len(shards) > 1:
    weight_map = {name: places[name][0].name for name in shapes}
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    with errors.naming(folder / INDEX_FILE):
      (folder / INDEX_FILE).write_text(
          json.dumps(index, indent=2) + "\n", encoding="utf-8"
      )


def _write_header(file, shapes, dtype, places) -> int:
  """Begins a file, notes each tensor's place; returns the tensors' bytes."""
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
    start = f.tell()
    f.truncate(start + at)
  for name in shapes:
    places[name] = file, start + header[name]["data_offsets"][0]
  return at


def _write_tensor(f, name: str, x: np.ndarray, dtype: str) -> None:
  """Writes a tensor where `f` stands, some rows at a time."""
  step = max(1, _BLOCK * len(x) // max(1, x.size)) if x.ndim else 1
  for i in range(0, len(x), step):
    part = x[i : i + step]
    with np.errstate(over="ignore"):
      stored = np.ascontiguousarray(part.astype(jnp.dtype(dtype)))
    if not np.isfinite(stored.astype(np.float32)).all():
      if not np.isfinite(part).all():
        raise errors.UserError(
            f"{name} has values that are not finite: export an earlier"
            " checkpoint."
        )
      raise errors.UserError(
          f"{name} has values that {dtype} cannot hold: export as float32 or"
          " bfloat16."
      )
    f.write(stored.tobytes())
