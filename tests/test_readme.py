"""README's section for users of the original: its commands and its code."""

import pathlib
import re
import shlex

import pytest
import readme_section
import shared_data

from ctrl_jax import config
from ctrl_jax.interop import tfrecords

SECTION = readme_section.Section("## Coming from")
BLOCKS = SECTION.blocks
COMMANDS = SECTION.commands("python ")
PROSE = SECTION.prose
# `convert --num-heads=4`, `--prior=data`: with or without the command.
OPTIONS = re.findall(
    r"`(?:python -m ctrl_jax\.)?(?:(\w+) )?(--[\w-]+(?:=[\w./-]+)?)`", PROSE
)


@pytest.mark.parametrize("line", COMMANDS)
def test_commands(line, monkeypatch):
  readme_section.check_command(line, monkeypatch)


@pytest.mark.parametrize("command, option", OPTIONS)
def test_options_in_the_text(command, option, capsys):
  names = [command] if command else ["sample", "attribute", "convert"]
  assert any(readme_section.parses(name, option) for name in names), option


def test_there_are_some():
  assert len(COMMANDS) >= 5 and len(OPTIONS) >= 6
  assert {"convert", "sample", "prepare", "train"} == {
      shlex.split(line)[2].removeprefix("ctrl_jax.") for line in COMMANDS
  }


def test_fields_of_the_configuration():
  (code,) = (c for language, c in BLOCKS if c.startswith("c."))
  c = config.default()  # Locked: a field that is gone raises.
  exec(code, dict(c=c))
  assert c.tokenizer.newlines == "training"
  for call in re.findall(r"`(config\.source\(.*?\))`", PROSE):
    exec(call, dict(config=config))


def test_records_are_written_as_by_the_originals_tool(tmp_path, monkeypatch):
  """From its own file's text: the same rows, but for the code."""
  expected = list(tfrecords.rows(
      shared_data.path("expected/tfrecords/sample.txt.tfrecords")
  ))
  (code,) = (c for language, c in BLOCKS if "tfrecords.write" in c)
  (tmp_path / "ctrl").symlink_to(shared_data.path("tokenizers/ctrl"))
  ids = [expected[0][1], *(i for row in expected for i in row[2:])]
  monkeypatch.chdir(tmp_path)
  pathlib.Path("mine.txt").write_text(written(ids), encoding="utf-8")
  exec(code, {})
  found = list(tfrecords.rows("mine.tfrecords"))
  assert {int(row[0]) for row in found} == {11859}  # Legal
  assert [row[1:].tolist() for row in found] == (
      [row[1:].tolist() for row in expected]
  )


def written(ids):
  """A text of these tokens under the "training" convention."""
  lines = pathlib.Path("ctrl/vocab").read_bytes().decode("utf-8").split("\n")
  pieces = [line.split(" ")[0] for line in lines]
  newline = len(pieces) + 1  # Behind the empty word and `<unk>`.
  return "".join(
      "\n" if i == newline else f"{pieces[i]} ".replace("@@ ", "") for i in ids
  )
