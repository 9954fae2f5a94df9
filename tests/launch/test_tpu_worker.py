"""launch/tpu_worker.sh on this machine, in a home folder of its own."""

import os
import pathlib
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def worker(tmp_path):
  def call(*arguments):
    return subprocess.run(
        ["bash", str(ROOT / "launch" / "tpu_worker.sh"), *arguments],
        capture_output=True, text=True, timeout=60,
        env=os.environ | {"HOME": str(tmp_path)},
    )

  yield call
  call("stop")


def state(worker):
  return worker("state").stdout.strip().removeprefix("ctrl_jax: ")


def wait_for(worker, expected):
  end = time.monotonic() + 60
  while state(worker) != expected and time.monotonic() < end:
    time.sleep(0.05)
  assert state(worker) == expected


@pytest.mark.parametrize("code", [0, 7])
def test_the_exit_code_of_what_ran(worker, code):
  assert state(worker) == "none"
  assert worker("start", "id", "bash", "-c", f"echo 'it runs'; exit {code}"
                ).returncode == 0
  wait_for(worker, f"exit {code}")
  assert worker("stop").returncode == 0
  assert state(worker) == ("exit stopped" if code else "exit 0")
  assert "it runs" in worker("log").stdout


def test_an_end_by_stop_is_never_seen_as_a_preemption(worker, tmp_path):
  """`stop` leaves its mark first, and then waits for the end, as `end`."""
  worker("start", "id", "sleep", "60")
  wait_for(worker, "running")
  (tmp_path / "ctrl_jax_run" / "stopping").touch()
  assert worker("end").returncode == 0
  assert state(worker) == "exit stopped"
  worker("start", "id", "true")
  wait_for(worker, "exit 0")


@pytest.mark.parametrize("verb, says", [
    ("end", "exit 143"), ("stop", "exit stopped"),
])
def test_stop_lets_it_save(worker, tmp_path, verb, says):
  script = f"trap 'echo saved >{tmp_path}/saved; exit 143' TERM; echo ready;"
  worker("start", "id", "bash", "-c", script + " while :; do sleep 0.1; done")
  wait_for(worker, "running")
  log = tmp_path / "ctrl_jax_run" / "log"
  while "ready" not in log.read_text():
    time.sleep(0.05)
  assert worker(verb).returncode == 0
  assert (tmp_path / "saved").exists()
  assert state(worker) == says


def test_a_start_takes_the_place_of_what_runs(worker, tmp_path):
  worker("start", "id", "sleep", "60")
  wait_for(worker, "running")
  first = (tmp_path / "ctrl_jax_run" / "pid").read_text()
  worker("start", "id", "true")
  wait_for(worker, "exit 0")
  process = pathlib.Path(f"/proc/{first.strip()}/cmdline")
  assert not process.exists() or not process.read_bytes()  # Not yet reaped.


def test_after_a_reboot_it_is_lost(worker, tmp_path):
  folder = tmp_path / "ctrl_jax_run"
  folder.mkdir()
  (folder / "pid").write_text(f"{os.getpid()}\n")  # Another program's now.
  assert state(worker) == "lost"
  assert worker("end").returncode == 0


def test_a_state_is_of_a_run(worker, tmp_path):
  (tmp_path / "ctrl_jax_installed").write_text("abc gs://b/data\n")
  ours = ("state", "abc", "gs://b/data", "id")
  assert worker(*ours).stdout == "ctrl_jax: none\n"
  worker("start", "id", "true")
  wait_for(worker, "exit 0")
  assert worker(*ours).stdout == "ctrl_jax: exit 0\n"
  for other in (("abd", "gs://b/data", "id"), ("abc", "id"),
                ("abc", "gs://b/data", "no")):
    assert worker("state", *other).stdout == "ctrl_jax: other\n"


def test_an_old_python_is_not_used(tmp_path):
  """At first apt may be busy with its own update: who calls it waits."""
  sudo = tmp_path / "sudo"
  sudo.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\n')
  sudo.chmod(0o755)
  done = subprocess.run(
      ["bash", str(ROOT / "launch" / "tpu_worker.sh"), "setup", "abc"],
      capture_output=True, text=True, timeout=60,
      env=os.environ | {
          "HOME": str(tmp_path), "PYTHON": "/none",
          "PATH": f"{tmp_path}:{os.environ['PATH']}",
      },
  )
  assert done.returncode == 2 and "PYTHON=/none" in done.stderr
  add, update, install = (tmp_path / "calls").read_text().splitlines()
  assert add == "add-apt-repository -yn ppa:deadsnakes/ppa"
  for call, end in ((update, "update"), (install, "python3.12-venv")):
    assert "DPkg::Lock::Timeout=600" in call and call.endswith(end)
  assert not (tmp_path / "ctrl_jax_installed").exists()


def test_bad_arguments(worker):
  for arguments in ([], ["fly"]):
    done = worker(*arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
  done = worker("log")
  assert done.returncode == 2 and "nothing was started" in done.stderr
