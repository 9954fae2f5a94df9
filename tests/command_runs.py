"""Runs a command of the program in this process, as a shell would."""

from absl import flags

from ctrl_jax import command


def parsed(define, *arguments):
  """Returns the flags of `sample` that `define` defines, parsed.

  Args:
    define: called with the flag values.
    *arguments: of the command line.
  """
  found = flags.FlagValues()
  define(found)
  flags.DEFINE_integer("next_tokens", 0, "", flag_values=found)
  found(["sample", *arguments])
  return found


def run(module, *arguments, main=None):
  """Returns a command's exit code; what it prints is for `capsys`.

  Args:
    module: with FLAGS and main.
    *arguments: of the command line.
    main: instead of the module's.
  """
  module.FLAGS.unparse_flags()
  for name in list(module.FLAGS):
    module.FLAGS[name].unparse()
  try:
    command.run(
        main or module.main, module.FLAGS, module.__doc__,
        [module.__name__, *arguments],
    )
  except SystemExit as e:
    return e.code
  return 0
