"""A section of README: its code, its commands, and whether they parse."""

import importlib
import pathlib
import re
import shlex

import command_runs

ROOT = pathlib.Path(__file__).parents[1]


class Section:
  """README from one heading to the next of any level.

  Args:
    heading: with its `#`s, or the beginning of it.

  Attributes:
    text: all of it.
    blocks: (language, code) of each.
    prose: the text without them.
  """

  def __init__(self, heading):
    self.text = re.search(
        rf"^{re.escape(heading)}.*?(?=^##)",
        (ROOT / "README.md").read_text("utf-8"), re.M | re.S,
    )[0]
    self.blocks = re.findall(r"^```(\w*)\n(.*?)^```", self.text, re.M | re.S)
    self.prose = re.sub(r"^```.*?^```", "", self.text, flags=re.M | re.S)

  def commands(self, start):
    """Lines of the blocks without a language that begin with `start`."""
    return [
        line for language, block in self.blocks if not language
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith(start)
    ]


def parses(name, *arguments):
  """Whether a command of the package takes these arguments."""
  module = importlib.import_module(f"ctrl_jax.{name}")
  return command_runs.run(module, *arguments, main=lambda: None) == 0


def check_command(line, monkeypatch):
  """Asserts that `python -m ctrl_jax.X ...` takes its arguments, not others."""
  monkeypatch.chdir(ROOT)  # --config=configs/...
  monkeypatch.delenv("CTRL_JAX_MODEL", raising=False)
  python, module_flag, module, *arguments = shlex.split(line, comments=True)
  assert (python, module_flag) == ("python", "-m")
  # ml_collections looks there for what overrides a configuration.
  monkeypatch.setattr("sys.argv", [module, *arguments])
  assert parses(module.removeprefix("ctrl_jax."), *arguments)
  assert not parses(module.removeprefix("ctrl_jax."), *arguments, "--gone=1")
