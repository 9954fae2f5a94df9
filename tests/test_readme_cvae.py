"""README's page on the CVAE: its commands take what they are given there."""

import re
import shlex

import command_runs
import pytest
import readme_section

from ctrl_jax import generation_flags, latent_flags, sample

SECTION = readme_section.Section("## A latent for long texts")
(SAMPLE,) = (line[len('S="') : -1] for line in SECTION.commands('S="'))
SAMPLES = [line.replace("$S", SAMPLE) for line in SECTION.commands("$S ")]
IN_THE_TEXT = [
    " ".join(line.split())
    for line in re.findall(r"`(python\s+-m\s+ctrl_jax[^`]*)`", SECTION.prose)
]


@pytest.mark.parametrize(
    "line", SECTION.commands("python -m") + SAMPLES + IN_THE_TEXT
)
def test_commands(line, monkeypatch):
  monkeypatch.setenv("CTRL_JAX_MODEL", "")
  readme_section.check_command(line, monkeypatch)


@pytest.mark.parametrize("line", SAMPLES)
def test_samples_say_one_thing(line):
  """`sample` checks these before it looks for a model."""

  def check():
    latent_flags.check(sample.FLAGS)
    assert generation_flags.given(sample.FLAGS)["rules"] == "cvae"

  arguments = shlex.split(line.replace("=$'", "='"))[3:]
  assert command_runs.run(sample, *arguments, main=check) == 0


def test_there_are_some():
  names = {
      shlex.split(line)[2].removeprefix("ctrl_jax.")
      for line in SECTION.commands("python -m")
  }
  assert names == {
      "keywords", "split", "prepare", "train", "evaluate_latent", "encode"
  }
  assert len(SAMPLES) >= 5 and len(IN_THE_TEXT) == 1
