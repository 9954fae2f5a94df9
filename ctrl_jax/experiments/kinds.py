"""Which experiments there are: what runs each, and what reports of it."""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from ctrl_jax import errors
from ctrl_jax.experiments import stages

# `kind` of a configuration -> its modules are KIND_methods and KIND_report.
NAMES = ("keyword", "topic", "two_tasks", "cvae")


class Kind(NamedTuple):
  """An experiment.

  Attributes:
    experiment: a `stages.Experiment`.
    report: from the output folder to the text to print, files written.
  """

  experiment: type[stages.Experiment]
  report: Callable[[Any], str]


def of(config: Any) -> Kind:
  """Returns the experiment that a configuration is for.

  Raises:
    errors.UserError: an unknown kind, or no configuration of an experiment.
  """
  name = config.get("kind", "")
  if name not in NAMES:
    raise errors.UserError(
        f"kind={name!r} is no experiment. {errors.nearest(str(name), NAMES)}"
        " Start from one of configs/*_experiment.py."
    )
  module = lambda part: importlib.import_module(
      f"ctrl_jax.experiments.{name}_{part}"
  )
  return Kind(module("methods").Experiment, module("report").write)
