"""How the folder of a data set is told from others, which are left alone."""

import os

from ctrl_jax.data import buckets, manifest, replace

# Lies in a bucket while a data set is copied there: names of files, a line
# each.
MARK = "ctrl_jax.upload"


def is_data_set(folder) -> bool:
  """Whether a folder, here or in a bucket, holds a data set, damaged perhaps.

  In a bucket also one of which the manifest is not there yet. A workdir has a
  copy of its data set's manifest, and is none.
  """
  folder = os.fspath(folder)
  if buckets.size(f"{folder}/config.json") is not None:
    return False
  if manifest.exists(folder):
    return b'"sequence_length"' in manifest.read_bytes(folder)
  return buckets.is_remote(folder) and (
      buckets.size(f"{folder}/{MARK}") is not None
  )


KIND = replace.Kind(
    "data set", is_data_set, "Choose another config.data.folder."
)
