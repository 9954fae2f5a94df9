"""What all commands share: flags, and one line for what a user can mend.

Each command owns a `flags.FlagValues`, so that several commands can be
imported in one process (absl's global one would refuse the second `--model`).
"""

import logging
import os
import sys
import textwrap
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_collections
from absl import flags
from absl import logging as absl_logging
from ml_collections import config_flags

from ctrl_jax import config as config_lib
from ctrl_jax import errors
from ctrl_jax.data import files, replace

# Flags that say where to write: on this machine.
_OUTPUTS = ("output", "plot")


def parse(flag_values: flags.FlagValues, argv: Sequence[str]) -> list[str]:
  """Parses `argv` (with the program's name first); returns what is left.

  Raises:
    errors.UserError: an unknown flag, a value of the wrong type, or a
      configuration that cannot be read.
  """
  try:
    rest = flag_values([argv[0], *map(_underscores, argv[1:])])
    if "config" in flag_values and flag_values["config"].present:
      _check_config(flag_values["config"].value, _config_file(argv))
  except errors.UserError:
    raise
  except Exception as e:
    # A configuration file is the user's program; so are its overrides.
    raise _parse_error(e, _config_file(argv)) from e
  # grain reads absl's global flags and refuses when nobody parsed them.
  if not flags.FLAGS.is_parsed():
    flags.FLAGS.mark_as_parsed()
  return rest[1:]


def define_config(flag_values: flags.FlagValues) -> flags.FlagHolder:
  """Defines --config, a Python file with get_config(), and its overrides."""
  return config_flags.DEFINE_config_file(
      "config",
      None,
      "The configuration, a Python file with get_config().",
      flag_values=flag_values,
  )


class HeldOut(NamedTuple):
  """The flags of a command that measures a model on held-out texts."""

  data: flags.FlagHolder
  split: flags.FlagHolder
  output: flags.FlagHolder


def define_held_out(flag_values: flags.FlagValues) -> HeldOut:
  """Defines --data, --split and --output."""
  return HeldOut(
      flags.DEFINE_string(
          "data", "", "The prepared data set; the one trained on when empty.",
          flag_values=flag_values,
      ),
      flags.DEFINE_enum(
          "split", "test", ["test", "validation"], "Which held-out texts.",
          flag_values=flag_values,
      ),
      flags.DEFINE_string(
          "output", "", "Folder of the results; MODEL/evaluation when empty.",
          flag_values=flag_values,
      ),
  )


def _config_file(argv: Sequence[str]) -> str:
  """Returns the file that --config names, "" without such a flag."""
  for argument, following in zip(argv[1:], [*argv[2:], ""], strict=True):
    name, equals, value = argument.partition("=")
    if name in ("--config", "-config"):
      return (value if equals else following).partition(":")[0]
  return ""


def _check_config(config: Any, file: str) -> None:
  """Refuses what is no configuration of this program."""
  getattr(config, "keys", None)  # An OSError is put off until now.
  if not isinstance(config, ml_collections.ConfigDict):
    raise errors.UserError(
        f"{file}: get_config() returns {type(config).__name__}: return what"
        " ctrl_jax.config.default() makes, with fields changed."
    )
  known = config_lib.default()
  missing = [
      f"{section}.{field}"
      for section, fields in known.items()
      for field in fields
      if field not in config.get(section, {})
  ]
  if missing:
    raise errors.UserError(
        f"{file}: the configuration has no {', '.join(missing[:5])}: start from"
        " ctrl_jax.config.default()."
    )


def _parse_error(e: Exception, file: str) -> errors.UserError:
  """Turns what parsing raised into one line."""
  if file and not os.path.isfile(file):
    return errors.UserError(f"No configuration {file!r}: check --config.")
  # ml_collections wraps what the file raised: twice, or as an OSError's cause.
  if "Error whilst parsing config file" in str(e):
    e = e.__context__.__context__
  elif isinstance(e, OSError) and e.__cause__ is not None:
    e = e.__cause__
  elif isinstance(e, flags.Error):
    return errors.UserError(" ".join(str(e).split()))
  if isinstance(e, errors.UserError):
    return e
  lines = [
      frame.lineno
      for frame in traceback.extract_tb(e.__traceback__)
      if file and os.path.abspath(frame.filename) == os.path.abspath(file)
  ]
  where = f"{file}:{lines[-1]}: " if lines else ""
  # KeyError shows its message with quotes and escapes.
  says = str(e.args[0] if e.args and isinstance(e.args[0], str) else e)
  says = says.replace("\\'", "'").replace("\\n", " ")
  return errors.UserError(
      f"The configuration cannot be read: {where}{type(e).__name__}: {says}."
      " Fields and their meaning: ctrl_jax/config.py."
  )


def run(
    main: Callable[[], None],
    flag_values: flags.FlagValues,
    description: str | None,
    argv: Sequence[str] | None = None,
) -> None:
  """Runs a command: parse, call, and turn a user's error into one line.

  Exits with 0 when `main` returns, 2 on `UserError` or an error of the file
  system, 1 where another process is missing, 130 when interrupted. Anything
  else is our own mistake and keeps its trace. Saved before the machine was
  taken away (`Preempted`): 0, or what the environment variable
  CTRL_JAX_PREEMPTED_EXIT_CODE says, for programs that start it again.

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
    _check_outputs(flag_values)
    preempted = _preempted_exit_code()
    main()
    sys.stdout.flush()
  except errors.Preempted as e:
    print(e, file=sys.stderr)
    sys.exit(preempted)
  except BrokenPipeError:
    # The reader (`| head`) went away: not an error of this program.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)
  except (errors.UserError, OSError) as e:
    sys.stdout.flush()
    print("Error:", errors.one_line(e), file=sys.stderr)
    sys.exit(errors.exit_code(e))
  except KeyboardInterrupt:
    print("Interrupted.", file=sys.stderr)
    sys.exit(130)


def _check_outputs(flag_values: flags.FlagValues) -> None:
  """Refuses results in a bucket now rather than after minutes of work."""
  for name in _OUTPUTS:
    if name in flag_values and flag_values[name].value:
      replace.check_is_local(files.expand(flag_values[name].value))


class _Stderr(logging.Handler):
  """Writes to whatever `sys.stderr` is at that moment."""

  def emit(self, record: logging.LogRecord) -> None:
    print(self.format(record), file=sys.stderr)


def _log_to_stderr() -> None:
  """Our own messages from INFO on; the libraries' from ERROR on."""
  absl_logging.set_verbosity(absl_logging.ERROR)
  logger = logging.getLogger("ctrl_jax")
  logger.setLevel(logging.INFO)
  logger.propagate = False
  if not logger.handlers:
    logger.addHandler(_Stderr())


def _preempted_exit_code() -> int:
  name = "CTRL_JAX_PREEMPTED_EXIT_CODE"
  code = os.environ.get(name, "0")
  if not code.isdecimal() or int(code) > 255:
    raise errors.UserError(f"{name}={code!r}: give a number from 0 to 255.")
  return int(code)


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
    says = flag.help.splitlines()[0].rstrip(";")
    text = f"  --{name.replace('_', '-')}{default}  {says}"
    lines.append(textwrap.fill(text, 79, subsequent_indent=" " * 6))
  return "\n".join(lines)


def allocator_settings(num_cores: int) -> str:
  """Settings of glibc (GLIBC_TUNABLES) for training on a CPU.

  XLA takes fresh memory for its temporaries in every step and gives it back:
  a tenth of a step goes to the kernel, which clears the pages anew each time,
  and twice that in pages of 4 KiB. So: huge pages, and one heap that is never
  trimmed, which serves the next step from the same pages. Where there are many
  cores (an accelerator's host) threads would wait for each other at one heap.
  """
  settings = ["hugetlb=1"]
  if num_cores <= 8:
    settings += ["arena_max=1", "mmap_max=0", f"trim_threshold={2**46}"]
  return ":".join(f"glibc.malloc.{s}" for s in settings)


# For a program that takes one large array after another: each goes back to the
# system when it is freed. (glibc would begin to keep those of up to 32 MB.)
ARRAY_SETTINGS = "glibc.malloc.mmap_threshold=1048576"


def tune_allocator(settings: str = "") -> None:
  """Starts this program anew with settings of its allocator (Linux, glibc).

  Args:
    settings: for GLIBC_TUNABLES; "" is `allocator_settings` of this machine.

  glibc reads them when a process starts, so they cannot be changed from inside.
  Does nothing where GLIBC_TUNABLES is set already.
  """
  if sys.platform == "linux" and "GLIBC_TUNABLES" not in os.environ:
    cores = len(os.sched_getaffinity(0))
    os.environ["GLIBC_TUNABLES"] = settings or allocator_settings(cores)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
