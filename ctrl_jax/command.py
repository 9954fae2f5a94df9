"""What all commands share: flags, and one line for what a user can mend.

Each command owns a `flags.FlagValues`, so that several commands can be
imported in one process (absl's global one would refuse the second `--model`).
"""

import logging
import os
import sys
import textwrap
from collections.abc import Callable, Sequence

from absl import flags
from absl import logging as absl_logging

from ctrl_jax import errors


def parse(flag_values: flags.FlagValues, argv: Sequence[str]) -> list[str]:
  """Parses `argv` (with the program's name first); returns what is left.

  Raises:
    errors.UserError: an unknown flag, a value of the wrong type, or a
      configuration that cannot be read.
  """
  try:
    rest = flag_values([argv[0], *map(_underscores, argv[1:])])
  except flags.Error as e:
    raise errors.UserError(" ".join(str(e).split())) from e
  except FileNotFoundError as e:
    raise errors.UserError(
        f"No configuration {e.filename or e}: check --config."
    ) from e
  except (AttributeError, KeyError, TypeError, SyntaxError, ImportError) as e:
    # A configuration file is the user's program; so are its overrides.
    raise errors.UserError(
        f"The configuration cannot be read: {type(e).__name__}: {e}. Fields and"
        " their meaning: ctrl_jax/config.py."
    ) from e
  # grain reads absl's global flags and refuses when nobody parsed them.
  if not flags.FLAGS.is_parsed():
    flags.FLAGS.mark_as_parsed()
  return rest[1:]


def run(
    main: Callable[[], None],
    flag_values: flags.FlagValues,
    description: str | None,
    argv: Sequence[str] | None = None,
) -> None:
  """Runs a command: parse, call, and turn a user's error into one line.

  Exits with 0 when `main` returns, 2 on `UserError` or an error of the file
  system, 130 when interrupted. Anything else is our own mistake and keeps its
  trace.

  Args:
    main: what to do, once `flag_values` are parsed.
    flag_values: the command's own flags.
    description: printed by `--help`, usually the module's docstring.
    argv: the command line, `sys.argv` when None.
  """
  argv = sys.argv if argv is None else argv
  if any(a in ("--help", "-h", "-help") for a in argv[1:]):
    print((description or "").strip(), "\n\nFlags:")
    print(_all_help(flag_values))
    sys.exit(0)
  _log_to_stderr()
  try:
    rest = parse(flag_values, argv)
    if rest:
      raise errors.UserError(
          f"Unexpected argument {rest[0]!r}: options are written --name=value."
      )
    main()
    sys.stdout.flush()
  except errors.UserError as e:
    _fail(e)
  except BrokenPipeError:
    # The reader (`| head`) went away: not an error of this program.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)
  except OSError as e:
    _fail(_one_line_os_error(e))
  except KeyboardInterrupt:
    print("Interrupted.", file=sys.stderr)
    sys.exit(130)


def _log_to_stderr() -> None:
  """Our own messages from INFO on; the libraries' from ERROR on."""
  absl_logging.set_verbosity(absl_logging.ERROR)
  logger = logging.getLogger("ctrl_jax")
  logger.setLevel(logging.INFO)
  logger.propagate = False
  if not logger.handlers:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)


def _fail(message) -> None:
  sys.stdout.flush()
  print("Error:", " ".join(str(message).split()), file=sys.stderr)
  sys.exit(2)


def _underscores(argument: str) -> str:
  """--next-tokens=5 means --next_tokens=5; values are left alone."""
  if not argument.startswith("--"):
    return argument
  name, equals, value = argument[2:].partition("=")
  return "--" + name.replace("-", "_") + equals + value


def _all_help(flag_values: flags.FlagValues) -> str:
  lines = []
  for name in sorted(flag_values):
    flag = flag_values[name]
    if not flag.help:
      continue
    default = "" if flag.default in (None, "", []) else f"={flag.default}"
    text = f"  --{name.replace('_', '-')}{default}  {flag.help.splitlines()[0]}"
    lines.append(textwrap.fill(text, 79, subsequent_indent=" " * 6))
  return "\n".join(lines)


def _one_line_os_error(e: OSError) -> str:
  name = e.filename if e.filename is not None else ""
  mend = {
      2: "Check the path.",
      13: "Choose a folder you may write to, or change its permissions.",
      28: "Free some space, or choose a folder on another disk.",
      30: "The file system is read-only: choose another folder.",
  }.get(e.errno, "")
  return f"{e.strerror or e} {name!r}. {mend}" if name else f"{e}. {mend}"


def use_huge_pages() -> None:
  """Starts this program anew with huge pages for large arrays (Linux, glibc).

  XLA takes fresh memory for its temporaries in every step; in pages of 4 KiB a
  tenth of a training step on CPU goes to page faults. glibc reads the setting
  when a process starts, so it cannot be changed from inside. Does nothing where
  GLIBC_TUNABLES is set already.
  """
  if sys.platform == "linux" and "GLIBC_TUNABLES" not in os.environ:
    os.environ["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
