"""Reading the files in a tar archive, one after the other."""

import tarfile
from collections.abc import Iterator

from ctrl_jax import errors
from ctrl_jax.data import packed

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
    with packed.open_packed(file, packed.format_of(file)) as stream:
      # "|": as a stream, so that a large archive is read once, front to back.
      with tarfile.open(
          fileobj=stream, mode="r|", tarinfo=_Member
      ) as archive:
        for member in archive:
          name = member.name
          if member.isfile() and name.endswith(end):
            yield name, archive.extractfile(member).read().decode("utf-8-sig")
      while stream.read(1 << 20):  # The checksum is at the end.
        pass
  except UnicodeDecodeError as e:
    raise errors.UserError(
        f"{file}, {name}: not UTF-8 text (byte {e.start}). Convert it to UTF-8."
    ) from e
  except (tarfile.TarError, *packed.ERRORS) as e:
    if not packed.is_damage(e):
      raise
    after = f" after {name}" if name else ""
    raise errors.UserError(
        f"{file}: damaged or no tar archive{after} ({e}). Get it again."
    ) from e


class _Member(tarfile.TarInfo):
  """A header; `tarfile` takes a bad or missing one for the archive's end."""

  @classmethod
  def frombuf(cls, buf, encoding, errors):
    """See `tarfile.TarInfo`."""
    try:
      return super().frombuf(buf, encoding, errors)
    except tarfile.EOFHeaderError:  # Zeros: the end as it should be.
      raise
    except tarfile.HeaderError as e:
      raise tarfile.ReadError(f"{e}, where a file or the end should be") from e
