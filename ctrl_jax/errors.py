"""What the commands answer with one line: a user's mistake, a preemption."""

import contextlib
import difflib
import errno
import re
import socket
from collections.abc import Iterable


class UserError(ValueError):
  """Bad input: one line that says what, where and how to mend it.

  The commands print its message without a trace and exit with code 2.
  """

  exit_code = 2


class Passing(UserError):
  """What the next start may not meet: a bucket that does not answer, say.

  Exit code 1: unlike a mistake, it may be mended by starting again, which what
  runs trainings unattended does.
  """

  exit_code = 1


class MissingProcess(Passing):
  """Another process of this run does not come: its machine may be to blame."""


class NotFinite(UserError):
  """A training's gradients are no numbers: its rates are too high, say."""


class Preempted(BaseException):
  """The machine is taken away (SIGTERM), and what was done is saved.

  The commands print its message and exit with code 0, or another that the
  environment variable CTRL_JAX_PREEMPTED_EXIT_CODE names. No `Exception`:
  nothing is to catch it on the way.
  """


def one_line(e: Exception) -> str:
  """Returns what a user is told of a `UserError` or an error of the system."""
  text = _of_the_system(e) if isinstance(e, OSError) else str(e)
  return " ".join(text.split())


def exit_code(e: BaseException) -> int:
  """Returns what a command ends with after an error."""
  if isinstance(e, KeyboardInterrupt):
    return 130
  if isinstance(e, SystemExit):
    return e.code
  mistake = isinstance(e, OSError) and not is_passing(e)
  return getattr(e, "exit_code", 2 if mistake else 1)


# Of a network, or of a file system at the other end of one.
_PASSING_ERRNOS = {
    errno.EIO, errno.ESTALE, errno.ENETDOWN, errno.ENETUNREACH,
    errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOBUFS,
}
# What gcsfs tries again, too, before it gives up: by name, since the extra that
# has these libraries need not be installed.
_PASSING_KINDS = re.compile(
    r"(requests|urllib3|aiohttp)\..*"
    r"|google\.auth\.exceptions\.(Transport|Refresh)Error"
    r"|gcsfs\..*\.ChecksumError"
)
# As tensorstore begins its messages.
_PASSING_STATUS = re.compile(
    r"(UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|ABORTED|INTERNAL"
    r"|CANCELLED|UNKNOWN): "
)


def is_passing(e: BaseException) -> bool:
  """Whether a network's or a bucket's error may be gone at the next start.

  Args:
    e: an error, also one that was raised because of such a one.
  """
  kind = f"{type(e).__module__}.{type(e).__qualname__}"
  code = getattr(e, "code", None)  # Of HTTP, in gcsfs' HttpError.
  if (
      isinstance(e, (Passing, ConnectionError, TimeoutError, socket.gaierror))
      or getattr(e, "errno", None) in _PASSING_ERRNOS
      or str(code) in ("408", "429") or re.fullmatch(r"5\d\d", str(code))
      or _PASSING_KINDS.fullmatch(kind) or _PASSING_STATUS.match(str(e))
  ):
    return True
  return e.__cause__ is not None and is_passing(e.__cause__)


def _of_the_system(e: OSError) -> str:
  name = e.filename if e.filename is not None else ""
  mend = {
      errno.EPERM: "Choose a folder you may write to.",
      errno.ENOENT: "Check the path.",
      errno.EACCES: (
          "Choose a folder you may write to, or change its permissions."
      ),
      errno.EEXIST: "A file is in the way: choose another path.",
      errno.ENOTDIR: "A file is in the way: choose another path.",
      errno.EISDIR: "Name a file, not a folder.",
      errno.ENOSPC: "Free some space, or choose a folder on another disk.",
      errno.EDQUOT: "Free some space, or choose a folder on another disk.",
      errno.EROFS: "The file system is read-only: choose another folder.",
      errno.ENAMETOOLONG: "Choose a shorter name.",
  }.get(e.errno, "")
  return f"{e.strerror or e} {name!r}. {mend}" if name else f"{e}. {mend}"


@contextlib.contextmanager
def naming(path):
  """Gives an error of the file system that names no file this one.

  Writing to a full disk raises such errors.
  """
  try:
    yield
  except OSError as e:
    if e.filename is None and e.errno is not None:
      e.filename = str(path)
    raise


def check_choices(
    section: str, values: object, **choices: Iterable[object]
) -> None:
  """Checks that fields have one of the values that they may have.

  Args:
    section: of the configuration, for the message.
    values: an object with the fields.
    **choices: field -> what it may be.

  Raises:
    UserError: a field has another value.

  Example:

  >>> check_choices("model", config, norm=("layer", "rms"))  # doctest: +SKIP
  """
  for field, allowed in choices.items():
    value = getattr(values, field)
    if value not in allowed:
      raise UserError(
          f"{section}.{field}={value!r} is not one of"
          f" {', '.join(map(repr, allowed))}."
      )


def nearest(name: str, known: Iterable[str]) -> str:
  """Returns `known` as a list for a message, the nearest to `name` first.

  Example:

  >>> nearest("Leggal", ["Books", "Legal"])
  "Did you mean 'Legal'? Known: Books, Legal."
  """
  known = list(known)
  shown = ", ".join(known[:60]) + (", ..." if len(known) > 60 else "")
  lower = {k.lower(): k for k in known}
  match = difflib.get_close_matches(name.lower(), list(lower), n=1, cutoff=0.5)
  hint = f"Did you mean {lower[match[0]]!r}? " if match else ""
  return f"{hint}Known: {shown}."
