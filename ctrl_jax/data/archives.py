"""Reading the files in a tar archive, one after the other."""

import lzma
import tarfile
import zlib
from collections.abc import Iterator

from ctrl_jax import errors

_ENDS = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")


def is_archive(file: str) -> bool:
  """Whether a file's name is that of a tar archive."""
  return file.endswith(_ENDS)


def texts(file: str, end: str) -> Iterator[tuple[str, str]]:
  """Yields (name, text) of the files in a tar archive, compressed or not.

  Args:
    file: the archive; how it is compressed is seen from its content.
    end: what the names of the wanted files end in.

  Raises:
    errors.UserError: the archive is damaged or none, or a file is not UTF-8.
  """
  name = ""
  try:
    # "|": as a stream, so that a large archive is read once, front to back.
    with tarfile.open(file, "r|*") as archive:
      for member in archive:
        name = member.name
        if member.isfile() and name.endswith(end):
          yield name, archive.extractfile(member).read().decode("utf-8-sig")
  except UnicodeDecodeError as e:
    raise errors.UserError(
        f"{file}, {name}: not UTF-8 text (byte {e.start}). Convert it to UTF-8."
    ) from e
  except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as e:
    # An error of the file system has a number; those of the formats have none.
    if isinstance(e, OSError) and e.errno is not None:
      raise
    after = f" after {name}" if name else ""
    raise errors.UserError(
        f"{file}: damaged or no tar archive{after} ({e}). Get it again."
    ) from e
