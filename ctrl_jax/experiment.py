"""Runs an experiment of a paper again: methods side by side.

  python -m ctrl_jax.experiment --experiment=configs/keyword_experiment.py \\
      --output=docs/keywords --minutes=150

Trains each method with one budget, measures it, and writes lines (JSON), tables
(Markdown) and figures (PNG). Run it again to go on. configs/*_experiment.py are
the experiments.
"""

from absl import flags

from ctrl_jax import command, errors

FLAGS = flags.FlagValues()
_EXPERIMENT = flags.DEFINE_string(
    "experiment", None, "A Python file with get_config(), as"
    " configs/keyword_experiment.py.", flag_values=FLAGS,
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Folder of lines, tables and figures.", flag_values=FLAGS
)
_METHOD = flags.DEFINE_string(
    "method", "", "Only this one; empty: all.", flag_values=FLAGS
)
_MINUTES = flags.DEFINE_float(
    "minutes", 0.0, "Begin nothing after so many minutes; 0: no limit.",
    lower_bound=0.0, flag_values=FLAGS,
)
_REPORT = flags.DEFINE_bool(
    "report", False, "Only make tables and figures of the lines that are"
    " there.", flag_values=FLAGS,
)


def main() -> None:
  """Runs the command."""
  if not _EXPERIMENT.value or not _OUTPUT.value:
    raise errors.UserError(
        "Which experiment, and where? Give --experiment="
        "configs/keyword_experiment.py --output=docs/keywords"
    )
  # Imported late: --help and a wrong flag need no JAX.
  from ctrl_jax.experiments import config_files, kinds

  config = config_files.load(_EXPERIMENT.value)
  kind = kinds.of(config)
  if not _REPORT.value:
    kind.experiment(config, _OUTPUT.value, _MINUTES.value).run(_METHOD.value)
  print(kind.report(_OUTPUT.value), end="")


if __name__ == "__main__":
  command.tune_allocator()
  command.run(main, FLAGS, __doc__)
