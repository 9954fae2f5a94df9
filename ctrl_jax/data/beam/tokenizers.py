"""A tokenizer on the way to other machines: as files, read once by each.

Within the pipeline's description it would be sent with every step, and some
runners bound that description's size.
"""

import functools
import pathlib
import tempfile

from etils import epath

from ctrl_jax import text as text_lib
from ctrl_jax.data import buckets


def save(tokenizer: text_lib.Tokenizer, folder: epath.Path) -> None:
  """Writes a tokenizer's files, here or in a bucket."""
  with tempfile.TemporaryDirectory() as name:
    tokenizer.save(pathlib.Path(name))
    folder.mkdir(parents=True, exist_ok=True)
    for file in pathlib.Path(name).iterdir():
      buckets.upload(file, folder / file.name)


@functools.lru_cache(maxsize=2)
def load(folder: str) -> text_lib.Tokenizer:
  """Reads what `save` wrote, once in each process."""
  with tempfile.TemporaryDirectory() as name:
    with buckets.reaching(folder):
      files = list(epath.Path(folder).iterdir())
    for file in files:
      buckets.download(file, pathlib.Path(name, file.name))
    return text_lib.load_tokenizer(name)
