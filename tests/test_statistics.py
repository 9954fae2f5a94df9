"""The command `statistics`."""

import json

import evaluation_fakes as fakes
import pytest

from ctrl_jax import command, statistics

CONFIG = """
from ctrl_jax import config

def get_config():
  c = config.default()
  c.data.folder = "FOLDER/set"
  c.data.sources = (
      config.source("tsv", "Books", path="FOLDER/pairs.tsv", template="{q}",
                    target="{a}", name="pairs"),
  )
  return c
"""


@pytest.fixture
def run(capsys):
  """Runs the command; returns exit code, stdout, stderr."""

  def run(*arguments):
    for name in statistics.FLAGS:
      statistics.FLAGS[name].unparse()
    code = 0
    try:
      command.run(statistics.main, statistics.FLAGS, "", ["s", *arguments])
    except SystemExit as e:
      code = e.code
    return code, *capsys.readouterr()

  return run


@pytest.fixture
def config_file(tmp_path):
  (tmp_path / "pairs.tsv").write_text("q\ta\ncat\tdog bark\ncat purr\twoof\n")
  file = tmp_path / "config.py"
  file.write_text(CONFIG.replace("FOLDER", str(tmp_path)))
  return file


def change(file, line):
  """Puts a line at the end of a configuration."""
  text = file.read_text()
  file.write_text(text.replace("  return c", f"  {line}\n  return c"))


def test_table_and_file(run, config_file, tmp_path):
  code, out, err = run(
      f"--config={config_file}", f"--output={tmp_path / 'out.json'}"
  )
  assert code == 0 and "No tokens are counted" in err
  assert out.splitlines()[1].split()[:2] == ["pairs", "2"]
  [found] = json.loads((tmp_path / "out.json").read_text()).values()
  assert found["texts"] == found["pairs"] == sum(found["splits"].values()) == 2
  assert found["mean"]["words"] == found["mean"]["prompt_words"] == 1.5


def test_tokenizers(run, config_file, tmp_path):
  fakes.tokenizer().save(tmp_path / "tokenizer")
  given = run(
      f"--config={config_file}", f"--tokenizer={tmp_path / 'tokenizer'}"
  )
  assert given[0] == 0 and "prompt tokens" in given[1]
  change(config_file, f'c.tokenizer.path = "{tmp_path / "tokenizer"}"')
  assert run(f"--config={config_file}")[:2] == given[:2]
  change(config_file, 'c.tokenizer.path = ""')
  assert "prompt tokens" not in run(f"--config={config_file}")[1]
  fakes.tokenizer().save(tmp_path / "set" / "tokenizer")
  assert run(f"--config={config_file}")[:2] == given[:2]


@pytest.mark.parametrize(
    "line, arguments, message",
    [
        ("", [], "Which texts"),
        ("c.data.sources = ()", ["--config=FILE"], "no text"),
        ("c.data.test_fraction = 1.5", ["--config=FILE"], "test_fraction"),
        ("", ["--config=FILE", "--tokenizer=nowhere"], "nowhere"),
    ],
)
def test_bad_input(run, config_file, line, arguments, message):
  change(config_file, line)
  code, _, err = run(*[a.replace("FILE", str(config_file)) for a in arguments])
  assert code == 2
  assert message in err.splitlines()[-1]
