import errno
import os
import subprocess
import sys

import pytest
from absl import flags
from ml_collections import config_flags

from ctrl_jax import command, errors


def make_flags():
  values = flags.FlagValues()
  flags.DEFINE_integer("next_tokens", 0, "How many.", flag_values=values)
  return values


def run(main, argv, values=None):
  with pytest.raises(SystemExit) as e:
    command.run(main, values or make_flags(), "Does it.", ["x", *argv])
  return e.value.code


def test_hyphens_and_values():
  values = make_flags()
  assert command.parse(values, ["x", "--next-tokens=7", "rest"]) == ["rest"]
  assert values.next_tokens == 7


def test_user_error_is_one_line_and_exit_code_2(capsys):
  def main():
    raise errors.UserError("No model\n  here.")

  assert run(main, []) == 2
  assert capsys.readouterr().err == "Error: No model here.\n"


@pytest.mark.parametrize("code", [None, "75"])
def test_saved_before_the_machine_was_taken(capsys, monkeypatch, code):
  def main():
    raise errors.Preempted("Saved at step 3.")

  if code:
    monkeypatch.setenv("CTRL_JAX_PREEMPTED_EXIT_CODE", code)
  assert run(main, []) == int(code or 0)
  assert capsys.readouterr().err == "Saved at step 3.\n"


def test_bad_exit_code(capsys, monkeypatch):
  monkeypatch.setenv("CTRL_JAX_PREEMPTED_EXIT_CODE", "-1")
  assert run(lambda: None, []) == 2
  assert "give a number from 0 to 255" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["--nexttokens=1"], ["--next-tokens=x"], ["y"]]
)
def test_bad_flags(argv, capsys):
  assert run(lambda: None, argv) == 2
  assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("code", [
    errno.EPERM, errno.ENOENT, errno.EACCES, errno.EEXIST, errno.ENOTDIR,
    errno.EISDIR, errno.ENOSPC, errno.EROFS,
])
def test_every_os_error_has_a_mend(code, capsys):
  def main():
    raise OSError(code, os.strerror(code), "/some/where")

  assert run(main, []) == 2
  _, _, mend = capsys.readouterr().err.partition("'/some/where'. ")
  assert mend.strip()


def test_os_error_names_the_file_and_the_mend(capsys):
  def main():
    open("/no/such/file")

  assert run(main, []) == 2
  err = capsys.readouterr().err
  assert "'/no/such/file'" in err and "Check the path." in err


@pytest.mark.parametrize("name", ["output", "plot"])
def test_results_in_a_bucket(name, capsys, monkeypatch):
  monkeypatch.setenv("BUCKET", "gs://bucket")
  values = flags.FlagValues()
  flags.DEFINE_string(name, "", "Where to.", flag_values=values)
  calls = []
  main = lambda: calls.append(1)
  assert run(main, [f"--{name}=$BUCKET/a"], values) == 2
  assert "'gs://bucket/a' must be a place on" in capsys.readouterr().err
  assert not calls


def test_our_own_mistakes_keep_their_trace():
  def main():
    raise AssertionError("a bug")

  with pytest.raises(AssertionError):
    command.run(main, make_flags(), "", ["x"])


def test_help_lists_flags(capsys):
  assert run(lambda: None, ["--help"]) == 0
  out = capsys.readouterr().out
  assert "Does it." in out and "How many." in out


@pytest.mark.parametrize(
    "body, override, says",
    [
        ("def get_config(:", "", "SyntaxError"),
        ("from ctrl_jax import config\nget_config = config.default",
         "--config.data.worker=2", "worker"),
        ("from ctrl_jax import config\nget_config = config.default",
         "--config.train.steps=many", "many"),
        (None, "", "No configuration"),
    ],
)
def test_bad_configuration(tmp_path, body, override, says):
  file = tmp_path / "c.py"
  if body:
    file.write_text(body)
  done = subprocess.run(
      [sys.executable, "-m", "ctrl_jax.prepare", f"--config={file}",
       *([override] if override else [])],
      capture_output=True, text=True,
  )
  assert done.returncode == 2, done.stderr
  assert says in done.stderr
  assert "Traceback" not in done.stderr


DEFAULT = "from ctrl_jax import config\n"


@pytest.mark.parametrize(
    "body, override, says",
    [
        (DEFAULT + "get_config = config.default", "nope.x=2", "'nope'"),
        ("def get_config():\n  open('/no/such')", "", "c.py:2: FileNotFound"),
        ("def get_config():\n  return 1 / 0", "", "c.py:2: ZeroDivisionError"),
        (DEFAULT + "config.source(pth='x')", "", "c.py:2: TypeError: source()"),
        (DEFAULT + "def get_config():\n  c = config.default()\n"
         "  c.train.stepps = 3", "", "c.py:4: .*stepps"),
        (DEFAULT + "def get_config():\n  c = config.default()\n"
         "  c.train.steps = 'x'", "", "c.py:4: TypeError"),
        ("from ctrl_jax import errors\ndef get_config():\n"
         "  raise errors.UserError('No such size.')", "", "^No such size.$"),
        ("def get_config(): return {}", "", r"get_config\(\) returns dict"),
        ("import ml_collections\nget_config = ml_collections.ConfigDict", "",
         "the configuration has no"),
        (None, "train.steps=3", "No configuration"),
    ],
)
def test_configuration_that_cannot_be_used(
    tmp_path, monkeypatch, body, override, says
):
  file = tmp_path / "c.py"
  if body:
    file.write_text(body)
  values = flags.FlagValues()
  config_flags.DEFINE_config_file("config", None, "", flag_values=values)
  argv = ["x", f"--config={file}"]
  argv += [f"--config.{override}"] if override else []
  monkeypatch.setattr(sys, "argv", argv)  # ml_collections looks there.
  with pytest.raises(errors.UserError, match=says) as e:
    command.parse(values, argv)
  assert "Traceback" not in str(e.value)


_PROGRAM = """
import os, sys
from ctrl_jax import command
command.tune_allocator()
print(os.environ["GLIBC_TUNABLES"], sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
@pytest.mark.parametrize("given", [None, "glibc.malloc.arena_max=2"])
def test_allocator_settings_start_the_program_anew_with_its_arguments(given):
  env = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
  if given:
    env["GLIBC_TUNABLES"] = given
  done = subprocess.run(
      [sys.executable, "-c", _PROGRAM, "a b", "--c=d"],
      capture_output=True, text=True, env=env, check=True,
  )
  expected = given or command.allocator_settings(
      len(os.sched_getaffinity(0))
  )
  assert done.stdout.strip() == f"{expected} ['a b', '--c=d']"


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_other_allocator_settings():
  done = subprocess.run(
      [sys.executable, "-c",
       _PROGRAM.replace("allocator()", "allocator(command.ARRAY_SETTINGS)")],
      capture_output=True, text=True, check=True,
      env={k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"},
  )
  assert done.stdout.startswith("glibc.malloc.mmap_threshold=")


_FAULTS = """
import resource
import numpy as np

def faults():
  return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

np.ones(2**25)
before = faults()
for _ in range(5):
  np.ones(2**25)
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_the_next_large_array_lies_in_the_same_pages():
  def faults(settings):
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS], capture_output=True, text=True,
        env=os.environ | {"GLIBC_TUNABLES": settings}, check=True,
    )
    return int(done.stdout)

  assert faults(command.allocator_settings(2)) < 50 < faults("")
  assert "arena_max" not in command.allocator_settings(100)
