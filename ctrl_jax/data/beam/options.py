"""Beam's options as a user gives them, and its errors as a user reads them."""

import argparse
import contextlib
import logging
import re
from collections.abc import Iterator

from ctrl_jax import errors

FLAG = "--beam_pipeline_options"
DATAFLOW = "DataflowRunner"

_GCP = "Dataflow also needs: pip install 'apache-beam[gcp]'."

logging.disable(logging.WARNING)  # Beam warns of what Google's cloud needs.
try:
  from apache_beam.options import pipeline_options
  from apache_beam.runners.runner import PipelineRunner, create_runner
except ImportError as e:
  raise errors.UserError(
      f"{FLAG} needs Apache Beam: pip install 'ctrl_jax[beam]'. {_GCP}"
  ) from e
finally:
  logging.disable(logging.NOTSET)

# A worker's error: the type's name, the text, and Beam's own addition.
_END = r"(?= \[while running|\n\S|\Z)"
_WORKERS = re.compile(
    rf"^(?:[\w.]*\.)?(UserError|Passing): (.*?){_END}",
    re.DOTALL | re.MULTILINE,
)
_SYSTEMS = re.compile(
    r"^(?:[\w.]*\.)?\w+: \[Errno (\d+)\] (.*?)"
    rf"(?:: '(.*?)')?(?: -> .*?)?{_END}",
    re.DOTALL | re.MULTILINE,
)

_INVALID = "Pipeline has validations errors:"


def parse(text: str) -> pipeline_options.PipelineOptions:
  """Returns the options that `text` gives, "runner=DirectRunner,..." say.

  The form is that of tensorflow-datasets' own command: NAME=VALUE or NAME,
  between commas, without the dashes in front.

  Raises:
    errors.UserError: an option that Beam does not know, one that is missing or
      wrong, or no runner.
  """
  names = [option.strip().lstrip("-") for option in text.split(",")]
  flags = [f"--{name}" for name in names if name]
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
  _check_runner(found)
  return found


def _check_runner(options: pipeline_options.PipelineOptions) -> None:
  """Checks the runner with its options, and gives it its usual name."""
  name = runner(options)
  try:
    made = create_runner(name)
  except (ValueError, ImportError, AttributeError, TypeError) as e:
    reason = " ".join(str(e).split())[:300]
    mend = f" {_GCP}" if "dataflow" in name.lower() else ""
    raise errors.UserError(
        f"{FLAG}: runner={name}: {reason.rstrip('.')}.{mend}"
    ) from e
  # The class that all are made of runs nothing itself.
  if not isinstance(made, PipelineRunner) or type(made) is PipelineRunner:
    raise errors.UserError(f"{FLAG}: runner={name} is no runner of Beam's.")
  workers = options.view_as(pipeline_options.DirectOptions).direct_num_workers
  if workers < 0:
    raise errors.UserError(
        f"{FLAG}: direct_num_workers={workers} must be 0 (one a core) or more."
    )
  if type(made).__name__ == DATAFLOW:
    _check_dataflow(options)
  standard = options.view_as(pipeline_options.StandardOptions)
  # A name may be written in other ways.
  standard.runner = {
      # What it runs pipelines on when it has not fetched a program for that.
      "SwitchingDirectRunner": "FnApiRunner",
      DATAFLOW: DATAFLOW,
  }.get(type(made).__name__, name)


def _check_dataflow(options: pipeline_options.PipelineOptions) -> None:
  """Refuses what Beam would only find when it asks Google, or make up.

  Without a temp_location in a bucket it makes a bucket of its own.
  """
  google = options.view_as(pipeline_options.GoogleCloudOptions)
  missing = [n for n in ("project", "region") if not getattr(google, n)]
  if not (google.temp_location or "").startswith("gs://"):
    missing.append("temp_location=gs://...")
  if missing:
    raise errors.UserError(
        f"{FLAG}: runner={DATAFLOW} needs {', '.join(missing)}."
    )


def runner(options: pipeline_options.PipelineOptions) -> str:
  """Returns the runner's name; "" if none is given."""
  return options.view_as(pipeline_options.StandardOptions).runner or ""


@contextlib.contextmanager
def naming_errors() -> Iterator[None]:
  """Turns what a worker raised into the line that a user reads.

  Raises:
    errors.UserError: a worker raised one, or Beam refuses its options.
    errors.Passing: likewise.
    OSError: likewise.
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
    if _INVALID in told:
      raise errors.UserError(f"{FLAG}: {told.partition(_INVALID)[2]}") from e
    if match := _SYSTEMS.search(told):
      raise OSError(int(match[1]), match[2].strip(), match[3]) from e
    raise
  finally:
    for logger, level in zip(loggers, levels, strict=True):
      logger.setLevel(level)
