"""launch/Dockerfile: its steps, run here without Docker and without downloads.

They run in a folder that holds what the image's COPY lines bring, with a
stand-in for Python that makes an environment of links and writes down what pip
is told.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = f"""#!/usr/bin/env bash
case "$*" in
  "-m venv --clear "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  "-m pip --version") [ "$(basename "$0")" = python ] ;;
  "-m pip "*) echo "${{*:3}}" >>"$LOG" ;;
  *) exec {sys.executable} "$@" ;;
esac
"""


@pytest.fixture(scope="module")
def instructions():
  text = (ROOT / "launch" / "Dockerfile").read_text()
  return [
      line.split(maxsplit=1) for line in text.splitlines()
      if line and not line.startswith("#")
  ]


def values(instructions, name):
  return [rest for word, rest in instructions if word == name]


@pytest.fixture(scope="module")
def image(instructions, tmp_path_factory):
  """The image's working folder before its RUN steps."""
  folder = tmp_path_factory.mktemp("image")
  for line in values(instructions, "COPY"):
    *sources, target = line.split()
    for source in sources:
      if (ROOT / source).is_dir():
        shutil.copytree(
            ROOT / source, folder / target,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
      else:
        shutil.copy(ROOT / source, folder / target)
  return folder


@pytest.mark.parametrize("extras", [None, "cuda,gcs"])
def test_the_steps(instructions, image, tmp_path, extras):
  python = tmp_path / "python3.12"
  python.write_text(PYTHON)
  python.chmod(0o755)
  (argument,) = values(instructions, "ARG")
  name, _, default = argument.partition("=")
  environment = os.environ | {
      name: extras or default, "PYTHON": str(python),
      "LOG": str(tmp_path / "log"), "CTRL_JAX_VENV": str(tmp_path / "venv"),
  }
  for step in values(instructions, "RUN"):
    subprocess.run(
        ["/bin/sh", "-c", step], cwd=image, env=environment, check=True
    )
  (told,) = (tmp_path / "log").read_text().splitlines()
  assert told.endswith(f"-e .[{extras or default}]")


def test_setup_py_finds_what_it_needs_there(image, instructions):
  code = (
      "import setuptools; seen = {}; setuptools.setup = seen.update;"
      " exec(open('setup.py').read(), dict(__file__='setup.py'));"
      " print(*seen['extras_require'], *seen['packages'])"
  )
  found = subprocess.check_output(
      [sys.executable, "-c", code], cwd=image, text=True
  ).split()
  (argument,) = values(instructions, "ARG")
  assert set(argument.partition("=")[2].split(",")) <= set(found)
  packages = {
      ".".join(p.parent.relative_to(ROOT).parts)
      for p in (ROOT / "ctrl_jax").rglob("__init__.py")
  }
  assert packages <= set(found)


def test_the_python_is_one_that_the_project_supports(instructions):
  (base,) = values(instructions, "FROM")
  assert re.fullmatch(r"python:3\.1[123]-slim", base)


def test_the_folder_of_the_environment_is_on_the_path(instructions):
  environment = dict(
      pair.split("=") for line in values(instructions, "ENV")
      for pair in line.split()
  )
  assert environment["PATH"] == environment["CTRL_JAX_VENV"] + "/bin:$PATH"


def test_docker_is_sent_what_is_copied(instructions):
  sent = (ROOT / "launch" / "Dockerfile.dockerignore").read_text().split()
  copied = {
      source for line in values(instructions, "COPY")
      for source in line.split()[:-1]
  }
  assert {line[1:] for line in sent if line.startswith("!")} == copied


def test_the_command_runs_in_it(instructions, image):
  (command,) = values(instructions, "CMD")
  arguments = re.findall('"([^"]+)"', command)
  done = subprocess.run(
      [sys.executable, *arguments[1:]], cwd=image, capture_output=True,
      text=True, env=os.environ | {"PYTHONPATH": str(image)},
  )
  assert done.returncode == 0 and "--workdir" in done.stdout
