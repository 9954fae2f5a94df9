"""Two processes of four devices each, without a training."""

import time
import types

import host_runs
import jax
import pytest

from ctrl_jax import errors
from ctrl_jax.hosts import session

# Runs `main`, which the tests define, as a command does.
_RUN = """
import signal, time
import jax, numpy as np
from absl import flags
from ctrl_jax import command, errors
from ctrl_jax.hosts import session
def ones():
  x = jax.make_array_from_callback(
      (8,), jax.NamedSharding(jax.make_mesh((8,), "d"), jax.P("d")),
      lambda index: np.ones(8, np.float32)[index])
  assert float(x.sum()) == 8
  return x
{}
def run():
  with session.joined(float(sys.argv[1])):
    main(session.current())
command.run(run, flags.FlagValues(), "", ["test"])
"""


def run(main, timeout):
  with host_runs.started(2, _RUN.format(main), timeout) as processes:
    return host_runs.ended(processes)


def test_what_they_say_is_known_to_all_and_who_does_not_come():
  begin = time.monotonic()
  results = run("""
def main(all):
  assert jax.device_count() == 8 and session.is_main() == (all.index == 0)
  print(all.exchange("one"), all.exchange("two", "own" * all.index),
        session.exchange("three", str(all.index)), file=sys.stderr)
  if all.index == 1:
    time.sleep(60)
  all.exchange("lunch")
""", 3)
  assert time.monotonic() - begin < 50
  for (code, err), begins in zip(results, ("Error: ", "Error: Process 0: ")):
    _, said, line = err.splitlines()
    assert code == 1 and said == "{} {1: 'own'} {0: '0', 1: '1'}"
    assert line.startswith(
        f"{begins}Process 1 of 2 did not come to lunch within 3 seconds: look"
    )


def test_an_error_ends_all_even_in_a_computation():
  begin = time.monotonic()
  results = run("""
def main(all):
  x = ones()
  if all.index == 1:
    time.sleep(1)
    raise errors.UserError("The disk\\nis full.")
  float(x.sum())  # It waits for process 1.
""", 60)
  assert time.monotonic() - begin < 50
  for (code, err), begins in zip(results, ("Error: Process 1: ", "Error: ")):
    assert code == 2
    assert err.splitlines()[1:] == [f"{begins}The disk is full."]


@pytest.mark.parametrize("missing", [[], [1]])
def test_who_dies_without_a_word_is_named(monkeypatch, missing):
  """Where a computation notices; JAX ends the others after 100 s if not."""
  at_exit = []
  monkeypatch.setattr(session.atexit, "register", lambda *x: at_exit.append(x))
  fake = types.SimpleNamespace(
      count=2, watcher=types.SimpleNamespace(fail=lambda *_: missing)
  )
  error = jax.errors.JaxRuntimeError("Gloo all-reduce failed")
  if not missing:
    session._fail(fake, error)
  else:
    with pytest.raises(errors.MissingProcess, match="^Process 1 of 2 went in"):
      session._fail(fake, error)
  assert at_exit == ([(session._exit, 1)] if missing else [])


def test_sigterm_outside_a_training_ends_all():
  results = run("""
import os
def main(all):
  if all.index == 1:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
  all.exchange("the workdir")
""", 300)
  (code, err), (code_1, err_1) = results
  assert code == code_1 == 143, err
  assert len(err_1.splitlines()) == 1
  assert err.splitlines()[1:] == [
      "Error: Process 1: Stopped by SIGTERM outside of training."
  ]


def test_sigterm_after_a_training_ends_nobody():
  results = run("""
import os
from ctrl_jax.training import preemption
def main(all):
  with preemption.Watch():
    pass
  os.kill(os.getpid(), signal.SIGTERM)
""", 60)
  assert [code for code, _ in results] == [0, 0], results


def test_sigterm_to_one_ends_what_all_wait_for():
  """As a data set that is copied: nothing is begun, so all leave with 0."""
  begin = time.monotonic()
  results = run("""
import os
from ctrl_jax.training import preemption
def wait(all):
  if all.index:
    os.kill(os.getpid(), signal.SIGTERM)
  time.sleep(200)
def main(all):
  with preemption.Watch() as stop:
    stop.together(lambda: wait(all), "the data set")
""", 150)
  assert [code for code, _ in results] == [0, 0], results
  assert time.monotonic() - begin < 150


def test_our_own_mistake_keeps_its_trace_where_it_was_made():
  results = run("""
def main(all):
  if all.index == 0:
    raise AssertionError("a bug")
  all.exchange("the end of it")
""", 60)
  assert [code for code, _ in results] == [1, 1]
  assert "Traceback" in results[0][1]
  assert results[1][1].splitlines()[1:] == [
      "Error: Process 0: AssertionError: a bug"
  ]


def test_preempted_all_leave_and_a_second_signal_changes_nothing():
  results = run("""
import os
def main(all):
  try:
    raise errors.Preempted("Saved.")
  finally:
    if all.index:
      old = session._leave
      def leave(all):
        os.kill(os.getpid(), signal.SIGTERM)
        old(all)
      session._leave = leave
""", 60)
  for code, err in results:
    assert code == 0 and err.splitlines()[1:] == ["Saved."]


def test_a_process_alone(monkeypatch):
  for name in ("ADDRESS", "COUNT", "INDEX"):
    monkeypatch.delenv(getattr(session.cluster_lib, name), raising=False)
  with session.joined():
    assert session.current() is None and session.is_main()
    assert session.exchange("here", "word") == {0: "word"}
    assert session.exchange("here") == {}


def test_processes_that_someone_else_joined(monkeypatch):
  monkeypatch.setattr(session.jax, "process_count", lambda: 2)
  with pytest.raises(errors.UserError, match="session.joined"):
    session.current()
