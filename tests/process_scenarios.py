"""What the processes of training/test_processes.py do, one thing after another.

Each thing is a training; a JSON line in `said-INDEX` says how it ended and
which rows of which batches this process put on its devices.
"""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import sys
import threading
import time
from unittest import mock

import jax
import ml_collections
import numpy as np
from absl import flags

from ctrl_jax import command, errors, train
from ctrl_jax.data import batches
from ctrl_jax.hosts import session
from ctrl_jax.training import (
  checkpoint,
  evaluation,
  loop,
  rows,
  run,
  sharding,
)

# What the waits last that a preemption is to end.
_LONG = 120.0
# Steps of a training that only a preemption ends; no checkpoint of its own.
_ENDLESS = dict(steps=10**6, checkpoint_every=10**6, eval_every=10**6)


def send():
  os.kill(os.getpid(), signal.SIGTERM)


def hang(*_):
  time.sleep(_LONG)


def once_a_mesh(function, place):
  """`function`, called once for what its argument number `place` is."""
  results = {}

  def call(*args):
    if args[place] not in results:
      results[args[place]] = function(*args)
    return results[args[place]]

  return call


class Scenarios:
  """The trainings, by name; `self.main` is whether this is process 0."""

  def __init__(self, config, folder):
    self.config = config
    self.folder = folder
    self.main = session.is_main()
    self.on_compilation = lambda: None
    # A mesh has one compiled step and one evaluation, whatever trains.
    self.compile = once_a_mesh(loop._compile, 1)
    self.make_eval_step = once_a_mesh(evaluation.make_eval_step, 1)

  def endless(self, name, **train_fields):
    """From the four steps of `whole` until a preemption."""
    if self.main:
      shutil.copytree(self.folder / "whole", self.folder / name)
      (self.folder / name / "samples.txt").unlink()
    session.exchange("the copy")
    return self.run(name, **_ENDLESS | train_fields)

  def run(self, name, **train_fields):
    """Trains in the workdir `name`; returns what to print."""
    c = self.config.copy_and_resolve_references()
    c.train.update(train_fields)
    put, hashes = rows.Rows.put, []

    def recording(self, batch):
      hashes.append({
          int(n): hashlib.sha256(tokens.tobytes()).hexdigest()[:8]
          for n, tokens in zip(self.numbers, batch["tokens"])
      })
      return put(self, batch)

    def compile_(*args):
      self.on_compilation()
      return self.compile(*args)

    said = dict(said="", perplexity=None)
    with (
        mock.patch.object(rows.Rows, "put", recording),
        mock.patch.object(loop, "_compile", compile_),
        mock.patch.object(evaluation, "make_eval_step", self.make_eval_step),
    ):
      try:
        result = train.train(c, str(self.folder / name))
        said["perplexity"] = result["perplexity"]
      except errors.Preempted as e:
        said["said"] = str(e)
    # The first is what the step was compiled for.
    return said | dict(
        hashes=hashes[1:], saved=checkpoint.saved_steps(self.folder / name)
    )

  def whole(self, steps):
    """Samples, too, with several processes."""
    tokens = 2 if session.current() else 0
    return self.run("whole", steps=int(steps), sample_tokens=tokens)

  def begun(self):
    """With the parameters of another run; preempted before any step."""
    self.on_compilation = send
    try:
      return self.run(
          "begun", **_ENDLESS, init_from=str(self.folder / "one")
      )
    finally:
      self.on_compilation = lambda: None

  def crossed(self):
    """`tensor` crosses the processes: both read all rows."""
    devices = np.array(jax.devices()).reshape(2, 4).T.flatten()
    mesh = sharding.make_mesh(2, 2, 2, devices)
    with mock.patch.object(sharding, "make_mesh", lambda **_: mesh):
      return self.run("crossed", steps=2)

  def on(self, count):
    """Restores with fewer devices, and evaluates."""
    count = int(count)
    mesh = sharding.make_mesh(1, count, 1, jax.devices()[:count])
    with (
        mock.patch.object(self, "compile", lambda *_: lambda step: None),
        mock.patch.object(sharding, "make_mesh", lambda **_: mesh),
        mock.patch.object(loop, "_log_start"),
        mock.patch.object(loop.programs, "peak_bytes"),
    ):
      return self.run("whole", steps=4)

  def in_training(self):
    look_at = run.Run._look_at

    def look(self, step, values):
      look_at(self, step, values)
      if step == 6 and not self.main:
        send()

    with mock.patch.object(run.Run, "_look_at", look):
      return self.endless("in_training")

  def in_compilation(self):
    self.on_compilation = lambda: self.main or send()
    try:
      return self.endless("in_compilation")
    finally:
      self.on_compilation = lambda: None

  def in_an_evaluation(self):
    all_batches = batches.evaluation_batches

    def slow(*args):
      yield next(all_batches(*args))
      if not self.main:
        send()
        hang()
      yield next(all_batches(*args))

    with mock.patch.object(batches, "evaluation_batches", slow):
      return self.endless("in_an_evaluation", eval_every=1)

  def waiting_for_data(self):
    """Process 1 waits for them; process 0, which waits for it, is preempted."""
    needed, update = batches._needed, run.Run._update
    release, read = threading.Event(), [0]

    def slow(record):
      read[0] += 1
      if read[0] > 20 and not self.main:
        release.wait(_LONG)
      return needed(record)

    def updating(self, *args):
      update(self, *args)
      if self.step == 6 and self.main:
        threading.Timer(1.0, send).start()

    with (
        mock.patch.object(batches, "_needed", slow),
        mock.patch.object(run.Run, "_update", updating),
    ):
      said = self.endless("waiting_for_data")
    release.set()
    return said

  def while_sampling(self):
    """Process 0 samples; process 1, which waits for it, is preempted."""
    sample = run.Run._sample

    def sampling(self, params):
      if not self.main:
        threading.Timer(1.0, send).start()
      sample(self, params)

    with (
        mock.patch.object(run.Run, "_sample", sampling),
        mock.patch.object(train._Sampler, "__call__", hang),
    ):
      return self.endless("while_sampling", eval_every=1, sample_tokens=2)

  def resumed(self, steps):
    """Of the newest checkpoint, process 1 alone cannot read its part."""
    restore = checkpoint.read_state

    def damaged(path, abstract):
      if path.name == steps and not self.main:
        raise ValueError("a part of it is gone")
      return restore(path, abstract)

    with mock.patch.object(checkpoint, "read_state", damaged):
      return self.run("resumed", steps=int(steps))

  def another_config(self):
    """Process 1's is not process 0's: that ends both."""
    if not self.main:
      self.config.train.seed += 1
    return self.run("another_config", steps=1)


def main(folder: str, *names: str) -> None:
  """Runs scenarios, NAME or NAME:ARGUMENT, of the configuration in `folder`."""
  folder = pathlib.Path(folder)
  config = ml_collections.ConfigDict(
      json.loads((folder / "config.json").read_text())
  )
  with session.joined(300.0):
    scenarios = Scenarios(config, folder)
    for scenario in names:
      name, _, argument = scenario.partition(":")
      said = getattr(scenarios, name)(*filter(None, [argument]))
      with (folder / f"said-{jax.process_index()}").open("a") as file:
        file.write(json.dumps(said | dict(scenario=scenario)) + "\n")


if __name__ == "__main__":
  command.run(
      lambda: main(*sys.argv[1:]), flags.FlagValues(), "", sys.argv[:1]
  )
