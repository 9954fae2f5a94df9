"""SIGTERM in every part of a training: one checkpoint, and the way out."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ctrl_jax import errors, train
from ctrl_jax.data import batches
from ctrl_jax.hosts import session as session_lib
from ctrl_jax.training import (
  checkpoint,
  checkpoint_manager,
  loop,
  preemption,
  run,
)

# What the waits below last when nothing ends them.
_LONG = 120.0


@pytest.fixture(autouse=True)
def no_death():
  """A SIGTERM that the program misses ends the test, not pytest."""

  def missed(*_):
    raise AssertionError("nobody handled SIGTERM")

  old = signal.signal(signal.SIGTERM, missed)
  yield
  assert signal.getsignal(signal.SIGTERM) is missed
  signal.signal(signal.SIGTERM, old)


def send():
  os.kill(os.getpid(), signal.SIGTERM)


def test_a_wait_ends_at_once():
  with preemption.Watch() as watch:
    assert not watch.requested
    threading.Timer(0.2, send).start()
    begin = time.monotonic()
    with pytest.raises(errors.Preempted), watch.interrupting():
      threading.Event().wait(_LONG)
    assert time.monotonic() - begin < _LONG / 2
    assert watch.requested
    with pytest.raises(errors.Preempted), watch.interrupting():
      raise AssertionError("not entered any more")


def test_elsewhere_it_is_only_noted():
  with preemption.Watch() as watch:
    with watch.interrupting():
      pass
    send()
    send()
    assert watch.requested


def test_what_follows_a_training_is_not_ended(monkeypatch):
  """In a command: it is done, or saved, and need only say so."""
  for name in ("ADDRESS", "COUNT", "INDEX"):
    cluster = session_lib.cluster_lib
    monkeypatch.delenv(getattr(cluster, name), raising=False)
  old = signal.getsignal(signal.SIGTERM)
  try:
    with session_lib.joined():
      with preemption.Watch():
        pass
      send()
      with pytest.raises(errors.Preempted), preemption.Watch() as watch:
        with watch.interrupting():
          send()
      send()
  finally:
    signal.signal(signal.SIGTERM, old)


_COPYING = """
import os, signal, sys, time
from ctrl_jax import command, train
from ctrl_jax.data import manifest
def load(folder, hint):
  os.kill(os.getpid(), signal.SIGTERM)
  time.sleep(100)
manifest.Manifest.load = load
command.run(train.main, train.FLAGS, "", sys.argv)
"""


@pytest.mark.parametrize("expected", [0, 143])
def test_a_process_alone_that_waits_for_its_data_set(tmp_path, expected):
  begin = time.monotonic()
  done = subprocess.run(
      [sys.executable, "-c", _COPYING, "--config=configs/demo.py",
       f"--workdir={tmp_path / 'r'}"], capture_output=True, text=True,
      env=os.environ | {
          "CTRL_JAX_PREEMPTED_EXIT_CODE": str(expected),
          "PYTHONPATH": os.getcwd(),
      },
  )
  assert done.returncode == expected, done.stderr
  assert done.stderr.splitlines()[-1].startswith("Stopped by SIGTERM before")
  assert time.monotonic() - begin < 90 and not (tmp_path / "r").exists()


class FakeSession:
  """This process and another, which says `other` at each exchange."""

  def __init__(self, other=""):
    self.other = other
    self.said = []
    self.watcher = self
    self.told = 0

  def exchange(self, where, text=""):
    self.said.append((where, text))
    answers = {0: text, 1: self.other}
    return {index: says for index, says in answers.items() if says}

  def open(self, tell):
    self.tell = tell

  def close(self):
    self.tell = None

  def notice(self):
    self.told += 1


@pytest.fixture
def session(monkeypatch):
  fake = FakeSession()
  monkeypatch.setattr(preemption.session_lib, "current", lambda: fake)
  return fake


def test_several_processes_leave_together(session):
  with preemption.Watch() as watch:
    with watch.interrupting():  # All compute the same: nobody leaves alone.
      send()
    assert not watch.requested and session.told == 1
    with pytest.raises(errors.Preempted):
      watch.together(lambda: 1, "step 3")
    assert watch.requested and session.said == [("step 3", "preempted")]
  assert session.tell is None


def test_what_another_process_says_counts(session):
  with preemption.Watch() as watch:
    assert watch.together(lambda: 1, "a") == 1
    assert watch.together(lambda: 1, "b", enough=True) is None
    session.other = "enough"
    assert watch.together(lambda: 1, "c") is None
    session.other = "preempted"
    with pytest.raises(errors.Preempted):
      watch.together(lambda: 1, "d")
    assert watch.requested
  assert session.said == [("a", ""), ("b", "enough"), ("c", ""), ("d", "")]


def test_another_process_ends_a_wait(session):
  """As the watcher's thread does it."""
  with preemption.Watch() as watch:
    threading.Timer(0.2, session.tell).start()
    begin = time.monotonic()
    with pytest.raises(errors.Preempted):
      watch.together(lambda: threading.Event().wait(_LONG), "step 1")
    assert time.monotonic() - begin < _LONG / 2


def test_items_are_got_together(session):
  with preemption.Watch() as watch:
    assert list(watch.iterate("ab", "letters")) == ["a", "b"]
  assert session.said == [("letters", "")] * 3


def test_outside_the_main_thread_nothing_is_changed():
  def work():
    with preemption.Watch() as watch, watch.interrupting():
      pass

  handler = signal.getsignal(signal.SIGTERM)
  thread = threading.Thread(target=work)
  thread.start()
  thread.join()
  assert signal.getsignal(signal.SIGTERM) is handler


def preempted(config, workdir, **fields):
  """Trains until SIGTERM, which must not take long; returns the steps saved."""
  config = config.copy_and_resolve_references()
  with config.unlocked():
    # No checkpoint of its own accord.
    config.train.update(dict(steps=10**6, checkpoint_every=10**6) | fields)
  begin = time.monotonic()
  with pytest.raises(errors.Preempted, match="the same command goes on"):
    train.train(config, str(workdir))
  assert time.monotonic() - begin < _LONG
  checkpoint.load_params(workdir)  # Whole: checksums are compared.
  return checkpoint.saved_steps(workdir)


def test_in_training(tmp_path, tiny_config, monkeypatch):
  real = run.Run._look_at

  def look(self, step, values):
    real(self, step, values)
    if step == 3:
      send()

  monkeypatch.setattr(run.Run, "_look_at", look)
  assert preempted(tiny_config, tmp_path / "r", eval_every=10**6) == [4]


def test_in_an_evaluation(tmp_path, tiny_config, monkeypatch):
  real = batches.evaluation_batches

  def slow(*args):
    yield next(real(*args))
    send()
    time.sleep(_LONG)

  monkeypatch.setattr(batches, "evaluation_batches", slow)
  assert preempted(tiny_config, tmp_path / "r", eval_every=2) == [2]
  text = (tmp_path / "r" / "metrics.jsonl").read_text()
  assert "validation" not in text and text.endswith("}\n")


def test_while_sampling(tmp_path, tiny_config, monkeypatch):
  def slow(self, *_):
    send()
    time.sleep(_LONG)

  monkeypatch.setattr(train._Sampler, "__call__", slow)
  assert preempted(tiny_config, tmp_path / "r", eval_every=1) == [1]
  assert not (tmp_path / "r" / "samples.txt").exists()


def test_in_compilation(tmp_path, tiny_config, monkeypatch):
  def slow(*_):
    send()
    time.sleep(_LONG)

  with monkeypatch.context() as m:
    m.setattr(loop, "_compile", slow)
    assert preempted(tiny_config, tmp_path / "r") == [0]
    # Again, now with a checkpoint to begin with.
    assert preempted(tiny_config, tmp_path / "r") == [0]


def test_in_restoring(tmp_path, tiny_config, monkeypatch):
  config = tiny_config.copy_and_resolve_references()
  with config.unlocked():
    config.train.steps = 2
  train.train(config, str(tmp_path / "r"))
  real = checkpoint_manager.Checkpoints.restore

  def restore(self, abstract):
    send()
    return real(self, abstract)

  monkeypatch.setattr(checkpoint_manager.Checkpoints, "restore", restore)
  assert preempted(tiny_config, tmp_path / "r") == [2]


def test_waiting_for_data(tmp_path, tiny_config, monkeypatch):
  """The reading thread hangs; the loop waits for it inside grain."""
  release, count = threading.Event(), [0]
  real = batches._needed

  def slow(record):
    count[0] += 1
    if count[0] == 60:  # Of 8 rows a batch.
      threading.Timer(1.0, send).start()
    if count[0] >= 60:
      release.wait(_LONG)
    return real(record)

  monkeypatch.setattr(batches, "_needed", slow)
  try:
    steps = preempted(tiny_config, tmp_path / "r", eval_every=10**6)
  finally:
    release.set()
  assert len(steps) == 1 and 0 < steps[0] < 8
