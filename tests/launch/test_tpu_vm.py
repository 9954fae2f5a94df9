"""launch/tpu_vm.sh: dry runs against goldens, and a slice that is taken away.

After a change of what a dry run prints: CTRL_JAX_GOLDEN=write, and look at the
difference.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
SLICE = ("--name=ctrl", "--zone=us-west4-a")
TRAIN = ("--", "python", "-m", "ctrl_jax.train", "--config=configs/ctrl_1b.py",
         "--workdir=gs://bucket/runs/1b", "--config.data.tfrecords=('a b',)")


def tpu_vm(*arguments, root=ROOT, **env):
  return subprocess.run(
      ["bash", str(root / "launch" / "tpu_vm.sh"), *arguments],
      capture_output=True, text=True, timeout=300, env=os.environ | env,
  )


@pytest.mark.parametrize("name, arguments", [
    ("create", ["create", *SLICE, "--type=v3-256", "--project=p",
                "--gcloud-flag=--reserved"]),
    ("setup", ["setup", *SLICE, "--data=gs://bucket/data/ctrl/"]),
    ("run", ["run", *SLICE, *TRAIN]),
    ("watch", ["watch", *SLICE]),
    ("status", ["status", *SLICE]),
    ("stop", ["stop", *SLICE]),
    ("delete", ["delete", *SLICE]),
    ("supervise", ["supervise", *SLICE, "--type=v5litepod-16", "--spot",
                   *TRAIN]),
])
def test_dry_run(name, arguments):
  done = tpu_vm(arguments[0], "--dry-run", *arguments[1:], TMPDIR="/tmp")
  assert done.returncode == 0, done.stderr
  head = subprocess.check_output(
      ["git", "-C", str(ROOT), "rev-parse", "HEAD"], text=True
  ).strip()
  text = done.stdout.replace(str(ROOT), "ROOT").replace(head, "COMMIT")
  golden = HERE / "golden" / f"tpu_vm_{name}.txt"
  if os.environ.get("CTRL_JAX_GOLDEN") == "write":
    golden.write_text(text)
  assert text == golden.read_text()


@pytest.mark.parametrize("arguments, says", [
    ([], "no command: create, setup"),
    (["fly"], "fly: create, setup"),
    (["create", "--zone=z", "--type=v3-8"], "--name=''"),
    (["create", "--name=A_b", "--zone=z", "--type=v3-8"], "--name='A_b'"),
    (["watch", "--name=a"], "--zone is missing"),
    (["create", *SLICE], "--type is missing"),
    (["create", *SLICE, "--type=tpu7x-8"], "give --version, too"),
    (["create", *SLICE, "--type"], "without its value: --type "),
    (["create", *SLICE, "--type="], "without its value: --type= "),
    (["create", *SLICE, "--typ=v3-8"], "--typ=v3-8"),
    (["setup", *SLICE, "--ref=no-such"], "--ref=no-such is no commit"),
    (["setup", *SLICE, "--data=here"], "--data=here"),
    (["setup", *SLICE, "--data=gs://b/x;rm"], "letters, digits"),
    (["run", *SLICE], "what to run?"),
    (["run", *SLICE, "--"], "what to run?"),
    (["watch", *SLICE, "--", "x"], "watch takes no command"),
    (["setup", *SLICE, "--data=gs://b/.."], "no part of it"),
    (["setup", *SLICE, "--data=gs://b/x//"], "no part of it"),
    (["setup", *SLICE, "--data=gs:///x"], "a folder of a bucket"),
    (["setup", *SLICE, "--data=gs://b"], "a folder of a bucket"),
    (["setup", *SLICE, "--data=gs://gs://b/x"], "a folder of a bucket"),
    (["setup", *SLICE, "--data=gs://b/x\ny"], "a folder of a bucket"),
    (["watch", *SLICE, "--poll=x"], "--poll=x: give seconds"),
    (["watch", *SLICE, "--poll=08"], "--poll=08: give seconds"),
    (["supervise", *SLICE, "--type=v3-8", f"--max-failures={10**20}", *TRAIN],
     "from 1 to 999999"),
    (["supervise", *SLICE, "--type=v3-8", "--max-failures=0", *TRAIN],
     "--max-failures=0"),
    (["supervise", *SLICE, "--type=v3-8", "--", "python", "--workdir=runs/x"],
     "must have --workdir=gs://"),
    (["supervise", *SLICE, "--type=v3-8", "--", "python", "--workdir", "gs://x"],
     "write --workdir=gs://..., with the sign"),
])
def test_bad_flags(arguments, says):
  done = tpu_vm(*arguments)
  assert done.returncode == 2 and done.stdout == ""
  assert says in done.stderr and done.stderr.count("\n") == 1


def test_without_gcloud(tmp_path):
  for name in ("bash", "git", "dirname", "mktemp", "rm"):
    (tmp_path / name).symlink_to(
        subprocess.check_output(["which", name], text=True).strip()
    )
  done = tpu_vm("watch", *SLICE, PATH=str(tmp_path))
  assert done.returncode == 2 and "gcloud is not installed" in done.stderr


def test_help_says_what_there_is():
  done = tpu_vm("--help")
  assert done.returncode == 0
  assert "supervise" in done.stdout and "set -euo" not in done.stdout
  assert tpu_vm("run", "--help").stdout == done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
  """A commit of what the workers need, as it stands here."""
  folder = tmp_path_factory.mktemp("repository")
  shutil.copytree(ROOT / "launch", folder / "launch")
  shutil.copy(ROOT / "setup.py", folder)
  shutil.copytree(ROOT / "configs", folder / "configs")
  subprocess.run(["git", "-C", str(folder), "init", "-q"], check=True)
  subprocess.run(["git", "-C", str(folder), "add", "-A"], check=True)
  commit_all(folder)
  return folder


def commit_all(folder, *options):
  subprocess.run(
      ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b",
       "commit", "-q", "-a", "-m", "all", *options], check=True,
  )


@pytest.fixture
def fake(tmp_path, repository):
  """Calls tpu_vm.sh with fake/gcloud, whose folder is `.folder`."""

  def call(*arguments):
    return tpu_vm(
        *arguments, root=repository, FAKE=str(tmp_path), TMPDIR=str(tmp_path),
        PATH=f"{tmp_path / 'bin'}:{HERE / 'fake'}:{os.environ['PATH']}",
    )

  call.folder = tmp_path
  yield call
  if (tmp_path / "slice").exists():
    call("delete", *SLICE)


def supervise(fake, plan="", *options, says="it's one"):
  """Returns what supervise did, gcloud's calls, and the training's starts."""
  if plan:
    (fake.folder / "plan").write_text(plan)
  done = fake(
      "supervise", *SLICE, "--type=v3-8", "--poll=0", *options, "--",
      "python", str(HERE / "training.py"), "--workdir=gs://b/r", says,
  )
  calls = (fake.folder / "calls").read_text().splitlines()
  starts = (fake.folder / "starts").read_text().splitlines()
  return done, calls, starts


def count(calls, words):
  return sum(words in call for call in calls)


def test_supervise_starts_again_after_a_preemption(fake):
  done, calls, starts = supervise(fake, "preempt")
  assert done.returncode == 0, done.stdout + done.stderr
  # From the last checkpoint, with the same arguments.
  assert starts == [
      f"{step} 143 --workdir=gs://b/r it's one" for step in (0, 3)
  ]
  assert (fake.folder / "step").read_text() == "6"
  assert count(calls, "queued-resources create") == 2
  assert count(calls, "queued-resources delete") == 1
  # Two workers, two slices.
  assert count(calls, "pip install") == 4
  assert all(call.endswith("-e .[tpu,gcs]") for call in calls
             if "pip install" in call)
  seen = [line.partition("ctrl: ")[2] for line in done.stdout.splitlines()
          if "ctrl: " in line and "ctrl_jax: " not in line]
  assert seen[0] == "NONE" and "SUSPENDED" in seen and seen[-1] == "ACTIVE done"


def test_supervise_starts_again_on_machines_that_stay(fake):
  done, calls, starts = supervise(fake, "143")
  assert done.returncode == 0, done.stdout + done.stderr
  assert [start.split()[0] for start in starts] == ["0", "3"], done.stdout
  assert count(calls, "queued-resources create") == 1


def test_supervise_tells_a_mistake_from_a_failure(fake):
  done, calls, starts = supervise(fake, "2")
  assert done.returncode == 2 and len(starts) == 1
  assert "it ends with 2" in done.stdout
  assert done.stderr.splitlines()[-1].startswith("Error: the command says so")
  # Not taken away from who wants to look.
  assert count(calls, "queued-resources delete") == 0


def test_a_mended_mistake_runs_on_the_slice_that_is_there(fake):
  """Where the command and the commit are the same: what it reads was mended."""
  assert supervise(fake, "2")[0].returncode == 2
  done, calls, starts = supervise(fake)
  assert done.returncode == 0, done.stdout + done.stderr
  assert [start.split()[0] for start in starts] == ["0", "3"]
  assert count(calls, "queued-resources create") == 1


def test_what_is_done_is_not_run_again_but_another_command_or_commit_is(
    fake, repository
):
  assert supervise(fake)[0].returncode == 0
  done, _, starts = supervise(fake)
  assert done.returncode == 0 and len(starts) == 1
  (fake.folder / "step").unlink()
  done, calls, starts = supervise(fake, says="more steps")
  assert done.returncode == 0 and len(starts) == 2, done.stdout
  assert "ctrl: ACTIVE other" in done.stdout
  (fake.folder / "step").unlink()
  commit_all(repository, "--allow-empty")
  done, calls, starts = supervise(fake, says="more steps")
  assert done.returncode == 0 and len(starts) == 3
  assert count(calls, "tar -xzf") == 3
  assert count(calls, "queued-resources create") == 1


def test_stop_ends_supervise_and_another_goes_on(fake):
  """The training stops itself at step 3, as somebody else might."""
  done, _, starts = supervise(fake, "stop")
  assert done.returncode == 1 and len(starts) == 1, done.stdout
  assert "By 'stop': supervise goes on" in done.stdout
  done, _, starts = supervise(fake)
  assert done.returncode == 0, done.stdout + done.stderr
  assert [start.split()[0] for start in starts] == ["0", "3"]


@pytest.mark.parametrize("most, code, num_starts", [(1, 1, 1), (2, 0, 2)])
def test_supervise_gives_up_after_failures(fake, most, code, num_starts):
  done, _, starts = supervise(fake, "7", f"--max-failures={most}")
  assert done.returncode == code and len(starts) == num_starts
  assert "it ends with 7" in done.stdout
  assert ("Gave up after 1 failures" in done.stdout) == (code == 1)


def test_refused_requests_are_failures(fake):
  (fake.folder / "refused").touch()
  (fake.folder / "starts").touch()
  done, calls, starts = supervise(fake)
  assert done.returncode == 1 and not starts
  assert "Gave up after 3 failures" in done.stdout
  assert count(calls, "queued-resources create") == 3
  assert count(calls, "state.failedData") == 3


def test_data_that_do_not_fit_are_not_copied(fake):
  (fake.folder / "bytes").write_text(str(2**60))
  (fake.folder / "starts").touch()
  done, calls, starts = supervise(
      fake, "", "--data=gs://b/data/large", "--max-failures=1"
  )
  assert done.returncode == 1 and not starts
  assert "gs://b/data/large takes 1073741824 GiB, and" in done.stderr
  assert not count(calls, "rsync")


def test_a_configuration_is_committed(fake, repository):
  train = ["--", "python", "-m", "x", "--workdir=gs://b/r"]
  (repository / "mine.py").write_text("")
  for name in ("mine.py", "mine.py:large", "missing.py"):
    done = fake(
        "run", *SLICE, *train, f"--config={name}"
    )
    assert "is not in commit" not in done.stderr  # `run` installs nothing.
    done = fake(
        "supervise", *SLICE, "--type=v3-8", *train, f"--config={name}"
    )
    assert done.returncode == 2
    assert f"Error: {name.partition(':')[0]} is not in commit" in done.stderr
  done = fake(
      "supervise", *SLICE, "--type=v3-8", "--dry-run", *train,
      "--config=setup.py",
  )
  assert done.returncode == 0, done.stderr


def test_failures_long_ago_are_forgotten(fake):
  """Three fail, of which two would be too many in a row."""
  sleep = fake.folder / "bin" / "sleep"
  sleep.parent.mkdir()
  sleep.write_text("#!/bin/sh\n[ $1 != 1800 ] || set 0.2\nexec /bin/sleep $1\n")
  sleep.chmod(0o755)
  # Each start is looked at four times; the fourth is the last.
  code = """if 1:
    import os, pathlib, sys, time
    calls = pathlib.Path(os.environ["FAKE"], "calls")
    looks = lambda: calls.read_text().count("tpu-vm describe")
    starts = pathlib.Path(os.environ["HOME"], "starts")
    count = len(starts.read_text()) if starts.exists() else 0
    starts.write_text("s" * (count + 1))
    end = looks() + 4
    while looks() < end:
      time.sleep(0.05)
    sys.exit(0 if count == 3 else 7)"""
  done = fake(
      "supervise", *SLICE, "--type=v3-8", "--poll=1800", "--max-failures=2",
      "--", "python", "-c", code, "--workdir=gs://b/r",
  )
  assert done.returncode == 0, done.stdout + done.stderr
  assert done.stdout.count("ACTIVE failed") == 3


def test_machines_that_are_gone_before_the_queue_knows(fake):
  """Not a slice to ask for: it would be refused, and count as a failure."""
  (fake.folder / "node").write_text("READY NOT_FOUND NOT_FOUND READY")
  done, calls, starts = supervise(fake, "", "--max-failures=1")
  assert done.returncode == 0, done.stdout + done.stderr
  assert count(calls, "queued-resources create") == 1 and len(starts) == 1
  assert "ctrl: GONE" in done.stdout


def test_machines_that_stay_gone_are_asked_for_again(fake):
  (fake.folder / "node").write_text("READY" + 7 * " NOT_FOUND")
  done, calls, _ = supervise(fake, "", "--max-failures=1")
  assert done.returncode == 0, done.stdout + done.stderr
  assert count(calls, "queued-resources delete") == 1
  assert count(calls, "queued-resources create") == 2


def test_machines_that_somebody_stopped(fake):
  """They stay so: nobody is to wait for them, or to start them unasked."""
  (fake.folder / "node").write_text("READY REPAIRING REPAIRING STOPPED")
  done, calls, _ = supervise(fake)
  assert done.returncode == 2
  assert done.stdout.count("ctrl: REPAIRING") == 1
  assert done.stderr.splitlines()[-1].startswith(
      "Error: the machines of ctrl are stopped"
  )
  assert count(calls, "queued-resources delete") == 0


@pytest.mark.parametrize("verb, file, says", [
    ("create", "unreachable", "UNAVAILABLE: the network is down"),
    ("supervise", "no-ssh", "Connection refused"),
])
def test_what_does_not_answer_is_not_waited_for_without_end(
    fake, verb, file, says
):
  assert fake("create", *SLICE, "--type=v3-8", "--poll=0").returncode == 0
  if verb == "create":
    fake("delete", *SLICE)
  (fake.folder / file).touch()
  command = TRAIN if verb == "supervise" else ()
  done = fake(verb, *SLICE, "--type=v3-8", "--poll=0", *command)
  (fake.folder / file).unlink()
  assert done.returncode == 1 and "No answer 20 times" in done.stdout
  assert says in done.stderr


def test_what_is_not_committed_is_left_out_and_said(fake, repository):
  arguments = ("setup", *SLICE, "--dry-run")
  assert fake(*arguments).stderr == ""
  file = repository / "setup.py"
  content = file.read_text()
  file.write_text(content + "# More.\n")
  done = fake(*arguments)
  file.write_text(content)
  assert done.returncode == 0
  assert done.stderr.endswith("that are not committed are left out.\n")


def test_one_step_after_the_other(fake):
  assert fake("create", *SLICE, "--type=v3-8", "--poll=0").returncode == 0
  assert "ctrl: ACTIVE none" in fake("status", *SLICE).stdout
  again = fake("create", *SLICE, "--type=v3-8")
  assert again.returncode != 0 and "ALREADY_EXISTS" in again.stderr
  done = fake("setup", *SLICE, "--data=gs://b/data/ctrl")
  assert done.returncode == 0, done.stderr
  assert done.stdout.count("ctrl_jax: installed") == 2
  assert (fake.folder / "worker1" / "ctrl_jax" / "data" / "ctrl").is_dir()
  code = "import time; print('here', flush=True); time.sleep(60)"
  assert fake("run", *SLICE, "--", "python", "-c", code).returncode == 0
  assert "ctrl: ACTIVE running" in fake("status", *SLICE).stdout
  assert fake("stop", *SLICE).returncode == 0
  assert "ctrl: ACTIVE stopped" in fake("status", *SLICE).stdout
  assert "here" in fake("watch", *SLICE).stdout
  assert fake("delete", *SLICE).returncode == 0
  assert "ctrl: NONE" in fake("status", *SLICE).stdout
