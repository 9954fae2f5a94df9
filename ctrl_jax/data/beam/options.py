"""Beam's options as a user gives them, and its errors as a user reads them."""

import argparse
import contextlib
import logging
import re
from collections.abc import Iterator

from ctrl_jax import errors

FLAG = "--beam_pipeline_options"

_GCP = "Dataflow also needs: pip install 'apache-beam[gcp]'."

logging.disable(logging.WARNING)  # Beam warns of what Google's cloud needs.
try:
  from apache_beam.options import pipeline_options
  from apache_beam.runners.runner import create_runner
except ImportError as e:
  raise errors.UserError(
      f"{FLAG} needs Apache Beam: pip install 'ctrl_jax[beam]'. {_GCP}"
  ) from e
finally:
  logging.disable(logging.NOTSET)

# A worker's error: the type's name, the text, and Beam's own addition.
_WORKERS = re.compile(
    r"^(?:[\w.]*\.)?(UserError|Passing): (.*?)"
    r"(?= \[while running|\n\S|\Z)", re.DOTALL | re.MULTILINE,
)


def parse(text: str) -> pipeline_options.PipelineOptions:
  """Returns the options that `text` gives, "runner=DirectRunner,..." say.

  The form is that of tensorflow-datasets' own command: NAME=VALUE or NAME,
  between commas, without the dashes in front.

  Raises:
    errors.UserError: an option that Beam does not know, or no runner.
  """
  flags = [f"--{option.strip().lstrip('-')}" for option in text.split(",")]
  # Other processes tell all that they do, unless told otherwise.
  if not any(f.startswith("--default_sdk_harness_log_level") for f in flags):
    flags.append("--default_sdk_harness_log_level=ERROR")
  parser = argparse.ArgumentParser(
      add_help=False, allow_abbrev=False, exit_on_error=False
  )
  for options in pipeline_options.PipelineOptions.__subclasses__():
    options._add_argparse_args(parser)
  try:
    _, unknown = parser.parse_known_args(flags)
  except (argparse.ArgumentError, SystemExit) as e:
    raise errors.UserError(f"{FLAG}: {e}.") from e
  if unknown:
    known = [
        name.removeprefix("--")
        for action in parser._actions for name in action.option_strings
    ]
    name = unknown[0].removeprefix("--").partition("=")[0]
    raise errors.UserError(
        f"{FLAG}: Beam has no option {name!r}. {errors.nearest(name, known)}"
    )
  found = pipeline_options.PipelineOptions(flags)
  if not runner(found):
    raise errors.UserError(
        f"{FLAG} must name a runner: runner=DirectRunner, DataflowRunner,"
        " FlinkRunner or SparkRunner."
    )
  if runner(found) == "DirectRunner":
    # What it runs pipelines on when it has not fetched a program for that.
    standard = found.view_as(pipeline_options.StandardOptions)
    standard.runner = "FnApiRunner"
  try:
    create_runner(runner(found))
  except (ValueError, ImportError, AttributeError) as e:
    reason = " ".join(str(e).split())[:300]
    raise errors.UserError(
        f"{FLAG}: runner={runner(found)}: {reason.rstrip('.')}. {_GCP}"
    ) from e
  return found


def runner(options: pipeline_options.PipelineOptions) -> str:
  """Returns the runner's name; "" if none is given."""
  return options.view_as(pipeline_options.StandardOptions).runner or ""


@contextlib.contextmanager
def naming_errors() -> Iterator[None]:
  """Turns what a worker raised into the line that a user reads.

  Raises:
    errors.UserError: a worker raised one.
    errors.Passing: likewise.
  """
  # Beam tells each failure several times, with its trace.
  loggers = [
      logging.getLogger(f"apache_beam.runners.{name}")
      for name in ("worker", "portability", "common")
  ]
  levels = [logger.level for logger in loggers]
  for logger in loggers:
    logger.setLevel(logging.CRITICAL)
  try:
    yield
  except Exception as e:
    told = f"{type(e).__name__}: {e}"
    if match := _WORKERS.search(told):
      kind = {"UserError": errors.UserError, "Passing": errors.Passing}
      raise kind[match[1]](match[2].strip()) from e
    raise
  finally:
    for logger, level in zip(loggers, levels, strict=True):
      logger.setLevel(level)
