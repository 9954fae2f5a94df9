import os
import pathlib
import subprocess

import pytest

from ctrl_jax import errors

HERE = pathlib.Path(__file__).parent
WHERE = ("--name=ctrl", "--cluster=pods", "--zone=us-west4-a",
         "--type=v5litepod-16", "--image=gcr.io/p/ctrl_jax")
TRAIN = ("--", "python", "-m", "ctrl_jax.train", "--config=configs/ctrl_1b.py",
         "--workdir=gs://bucket/runs/1b", "--config.data.tfrecords=('a b',)")


def xpk(*arguments, **env):
  return subprocess.run(
      ["bash", str(HERE.parents[1] / "launch" / "xpk.sh"), *arguments],
      capture_output=True, text=True, timeout=60, env=os.environ | env,
  )


def test_dry_run():
  done = xpk(*WHERE, "--project=p", "--dry-run", *TRAIN)
  assert done.returncode == 0, done.stderr
  assert done.stdout == (HERE / "golden" / "xpk.txt").read_text()


def test_what_xpk_gets(tmp_path):
  """The command comes out of the container's shell as it was given."""
  fake = tmp_path / "xpk"
  fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
  fake.chmod(0o755)
  done = xpk(*WHERE, *TRAIN, PATH=f"{tmp_path}:{os.environ['PATH']}")
  assert done.returncode == 0, done.stderr
  # What xpk would take for a mistake: see errors.MissingProcess.
  codes = f"--restart-on-exit-codes={errors.MissingProcess.exit_code}"
  assert codes in done.stdout.splitlines()
  line = done.stdout.splitlines()[-1]
  command = line.removeprefix("--command=")
  command = command.replace(" python ", " printf %s\\\\n ")
  shown = subprocess.check_output(["bash", "-c", command], text=True)
  assert shown.splitlines() == list(TRAIN[2:])


@pytest.mark.parametrize("arguments, says", [
    (WHERE[1:] + TRAIN, "--name is missing"),
    (WHERE[:-1] + TRAIN, "--image is missing"),
    (WHERE, "what to run?"),
    ((*WHERE, "--slices"), "--slices"),
    ((*WHERE, "--max-restarts=x", *TRAIN), "--max-restarts=x"),
    ((*WHERE, "--", "python"), "must have --workdir=gs://"),
])
def test_bad_flags(arguments, says):
  done = xpk(*arguments)
  assert done.returncode == 2 and done.stdout == ""
  assert says in done.stderr and done.stderr.count("\n") == 1


def test_without_xpk(tmp_path):
  for name in ("bash", "dirname"):
    (tmp_path / name).symlink_to(
        subprocess.check_output(["which", name], text=True).strip()
    )
  done = xpk(*WHERE, *TRAIN, PATH=str(tmp_path))
  assert done.returncode == 2 and "pip install xpk" in done.stderr
