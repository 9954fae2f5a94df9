"""One start of a training: update after update, and what is done in between."""

import contextlib
import functools
import logging
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ctrl_jax import errors
from ctrl_jax.data import batches
from ctrl_jax.hosts import session
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.training import (
  appending,
  evaluation,
  flops,
  goodput,
  metrics,
  profile,
  progress,
  sharding,
)
from ctrl_jax.training import step as step_lib

_LOG = logging.getLogger(__name__)

# Given (model configuration, parameters): texts to show, as one string.
Sampler = Callable[[TransformerConfig, Any], str]


class Run:
  """What the loop holds on to between steps."""

  def __init__(self, config, task, manifest, mesh, folder, checkpoints, rows,
               sampler, profiled, stop, meta):
    self.c = config.train
    self.task = task
    self.manifest = manifest
    self.folder = folder
    self.checkpoints = checkpoints
    self.rows = rows
    self.mesh = mesh
    self.sampler = sampler
    self.stop = stop  # A preemption.Watch.
    self.seconds = meta["seconds"]  # Trained by earlier starts of this run.
    self.started = time.monotonic()
    self.step = meta["step"]
    self.state = self.pending = None  # Of the last update, and its metrics.
    self.main = session.is_main()
    self.writer = self.goodput = None
    if self.main:
      self.writer = metrics.MetricWriter(folder)
      # Runs of earlier versions have not counted them.
      productive = meta.get("productive", 0.0)
      self.goodput = goodput.Goodput(folder, productive)
    steps = profiled if self.main else range(0)
    self.profile = profile.Profile(steps, folder, self.step)
    self.eval_step = evaluation.make_eval_step(
        task, sharding.replicated(mesh)
    )
    self.tokens_per_step = self.c.batch_size * manifest.sequence_length
    peak = flops.peak_flops(jax.devices()[0])
    if jax.devices()[0].platform != "cpu":  # Virtual CPU devices share cores.
      peak *= mesh.size
    self.rates = {"tokens_per_second": 0.0}
    self.progress = progress.Progress(
        self.c.steps, self.step,
        task.flops_per_token(manifest.sequence_length), peak, show=self.main,
    )

  def loop(self, state, update, data) -> dict[str, Any]:
    """Updates `state` until the last step, or SIGTERM.

    Args:
      state: of step `self.step`.
      update: step -> its compiled update; not called once SIGTERM has come.
      data: `TrainBatches`.

    Returns:
      The last evaluation, and figures of the run.

    Raises:
      errors.Preempted: SIGTERM came; a checkpoint of the last step is there.
    """
    c = self.c
    self.state = state
    self._warn()
    result, iterator = None, data.iterate(self.step)
    with contextlib.suppress(errors.Preempted):
      while self.step < c.steps:
        batch = self.stop.together(  # The data may be long in coming.
            functools.partial(next, iterator), f"step {self.step + 1}",
            enough=self._time_is_up(),
        )
        if batch is None:
          break
        self._update(update, batch)
        result = None
        if self.step % c.checkpoint_every == 0:
          self._save()
        if self.step % c.eval_every == 0:
          result = self._evaluate()
    self._settle()
    if result is None and not self.stop.requested:
      with contextlib.suppress(errors.Preempted):
        result = self._evaluate()
    if result is None or (self.stop.requested and self.step < c.steps):
      raise errors.Preempted(
          f"Stopped by SIGTERM, saved at step {self.step}: the same command"
          " goes on from there."
      )
    return {
        **result, "step": self.step, "seconds": self._seconds(), **self.rates,
        **self._goodput(),
    }

  def close(self):
    """Ends threads and files, whatever happened."""
    if self.writer:
      self.writer.close()
    self.progress.close()
    self.checkpoints.close()
    self.profile.close()

  def _update(self, update, batch):
    """Makes one update, while the one before is looked at."""
    if self.profile.is_due(self.step):
      self._switch_profile()
    batch = self.rows.put(inputs(batch))
    with (
        jax.profiler.StepTraceAnnotation("train", step_num=self.step),
        jax.transfer_guard("disallow"),
    ):
      self.state, values = update(self.step)(self.state, batch)
    # The device is at work on this step: look at the one before it. Waiting
    # for it bounds the steps that hold temporaries at one time.
    before, self.pending = self.pending, values
    self.step += 1
    if before is not None:
      jax.block_until_ready(before)
      self._look_at(self.step - 1, before)
    self.progress.step(self.tokens_per_step)

  def _settle(self):
    """Looks at the last update and saves it, unless that was done."""
    if self.pending is not None:
      self._look_at(self.step, self.pending)
    if self.step not in self.checkpoints.steps():
      self._save()
    with self.progress.pause():
      self.checkpoints.wait()

  def _look_at(self, step, values):
    """Checks and logs the metrics of update number `step`, 1 the first."""
    c = self.c
    if step % c.log_every and step != c.steps:
      return
    values = jax.device_get(values)
    if values["skipped_in_row"] >= c.stop_after_bad_steps:
      raise errors.NotFinite(
          f"Gradients were not finite {values['skipped_in_row']} steps in a row"
          f" (by step {step}); these updates were left out. The last checkpoint"
          " is good. Lower optimizer.learning_rate or lengthen"
          " optimizer.warmup_steps."
      )
    self.rates = self.progress.rates()
    values = {k: float(v) for k, v in values.items()}
    if self.main:
      rates = self.rates | self._goodput()
      self.progress.show(values["loss"], rates)
      self.writer.write(step, {"train": values | rates})

  def _evaluate(self):
    """Returns the perplexities; SIGTERM ends this at once."""
    params = step_lib.all_params(self.state)
    jax.block_until_ready(params)  # Or the update's time would not count.
    if not self.manifest.size("validation"):
      return {"loss": None, "perplexity": None, "perplexity_by_code": {}}
    with self.progress.pause():
      with self.stop.interrupting():
        held_out = batches.evaluation_batches(
            self.manifest, "validation", self.c.batch_size,
            self.c.eval_sequences,
        )
        result = evaluation.perplexities(
            self.eval_step, params, self.stop.iterate(held_out, "evaluation"),
            self.rows.put_whole, self.manifest.labels,
        )
      if self.main:
        self.writer.write(self.step, {"validation": result})
        self.progress.write(
            f"step {self.step}: validation perplexity"
            f" {result['perplexity']:.2f}"
        )
      if self.sampler and self.c.sample_tokens:
        self._sample(params)
    return result

  def _sample(self, params):
    """Writes texts, which the main process generates on one device."""
    with sharding.alone(self.task.plain(params), self.mesh) as own:
      text = self.stop.together(
          lambda: self.sampler(self.task.model, own) if self.main else "",
          "samples",
      )
    if self.main:
      with appending.Appender(self.folder / "samples.txt") as file:
        file.write(f"==== step {self.step}\n{text}\n")

  def _save(self):
    jax.block_until_ready(self.state)
    productive = 0.0
    if self.main:
      productive = self.goodput.productive(self.progress.productive)
      self.writer.flush()
    with self.progress.pause():
      self.checkpoints.save(
          self.step, step_lib.without_frozen(self.state), self._seconds(),
          productive,
      )

  def _switch_profile(self):
    jax.block_until_ready(self.pending)
    with self.progress.pause():
      self.profile.switch()

  def _goodput(self):
    if not self.main:
      return {}
    return {"goodput": self.goodput.share(self.progress.productive)}

  def _seconds(self):
    return self.seconds + time.monotonic() - self.started

  def _time_is_up(self):
    return 0 < self.c.max_minutes * 60 <= self._seconds()

  def _warn(self):
    """Says what may come as a surprise."""
    if self._time_is_up() and self.step < self.c.steps:
      _LOG.warning(
          "train.max_minutes=%g is used up: %.1f minutes in earlier starts of"
          " this run. Raise it to go on.", self.c.max_minutes,
          self.seconds / 60,
      )
    if not self.manifest.size("validation"):
      _LOG.warning(
          "The data set has no validation sequences: there is no evaluation."
          " For one, prepare with a larger data.validation_fraction."
      )


def inputs(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Returns what the model reads of a batch."""
  return {k: v for k, v in batch.items() if k != "source"}
