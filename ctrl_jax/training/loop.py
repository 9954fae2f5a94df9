"""The training loop: one run from its first step, or from where it stopped."""

import functools
import logging
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import ml_collections
import numpy as np

from ctrl_jax import backend, errors, text
from ctrl_jax.data import batches, files
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.tasks import make as tasks
from ctrl_jax.training import (
  checkpoint,
  evaluation,
  flops,
  initial,
  metrics,
  optimizer,
  sharding,
  trainable,
)
from ctrl_jax.training import progress as progress_lib
from ctrl_jax.training import step as step_lib
from ctrl_jax.training import workdir as workdir_lib

_LOG = logging.getLogger(__name__)

# Given (model configuration, parameters): texts to show, as one string.
Sampler = Callable[[TransformerConfig, Any], str]


def train(
    config: ml_collections.ConfigDict,
    workdir: str,
    manifest: Manifest,
    sampler: Sampler | None = None,
) -> dict[str, Any]:
  """Trains until `config.train.steps`; the same call resumes.

  A run that was killed at any step and called again ends with the same
  parameters to the bit as one that was not (same machine, same devices).

  Args:
    config: see `ctrl_jax.config.default`.
    workdir: folder of this run.
    manifest: the prepared data set.
    sampler: makes the sample texts of an evaluation.

  Returns:
    The last evaluation, with `step`, `seconds` and `tokens_per_second`.

  Raises:
    errors.UserError: configuration, data and workdir do not fit each other, or
      gradients are not finite `stop_after_bad_steps` times in a row.
  """
  config = _resolve(config)
  c = config.train
  # All that can be wrong with the configuration, before a workdir is made.
  task = tasks.make(config, manifest.vocab_size)
  optimizer.OptimizerConfig(**config.optimizer)
  rules = sharding.ShardingRules()
  mesh = sharding.make_mesh(**config.mesh)
  _check(config, manifest, mesh)
  if sampler and c.sample_tokens and not hasattr(task, "plain"):
    raise errors.UserError(
        f"train.sample_tokens={c.sample_tokens}: what task.name="
        f"{config.task.name!r} trains is no language model by itself, which"
        " samples on the way are of. Set it to 0, and use python -m"
        " ctrl_jax.sample afterwards."
    )

  with sharding.use(mesh, rules):
    # 1. Abstract state -> shardings -> the state itself, restored or new.
    step_fn = step_lib.from_config(config, task)
    shardings = sharding.shardings(
        mesh, rules, jax.eval_shape(step_fn.init_boxed)
    )
    abstract = _abstract(step_fn, shardings)
    start = _initial(config, task, manifest, workdir, "frozen" in abstract)
    base_hash = start.hash if "frozen" in abstract else ""
    folder = workdir_lib.open_workdir(workdir, config, manifest, base_hash)
    checkpoints = checkpoint.Checkpoints(folder, c.keep_checkpoints)
    if checkpoints.steps():
      state, meta = checkpoints.restore(step_lib.without_frozen(abstract))
      _LOG.info("Resumed at step %d of %d.", meta["step"], c.steps)
      if "frozen" in abstract:
        frozen = {"frozen": abstract["frozen"]}
        state |= initial.put(frozen, start, task)
    else:
      state = _new_state(step_fn, shardings, abstract)
      if start is not None:
        state = initial.put(state, start, task)
      meta = {"step": 0, "seconds": 0.0}

    # 2. One compiled update a phase; the old state's memory becomes the new
    # one's.
    put = functools.partial(_put, sharding.batch_sharding(mesh, rules))
    data = batches.TrainBatches(
        manifest, c.batch_size, c.seed, jax.process_index(), jax.process_count()
    )
    first = put(_inputs(data.batch(meta["step"])))
    jitted = jax.jit(
        step_fn, donate_argnums=0, static_argnums=2,
        out_shardings=(shardings, None),
    )

    @functools.cache
    def update(phase):
      return jitted.lower(abstract, first, phase).compile()

    for step in {meta["step"], c.steps - 1}:
      update(step_fn.phase(step))
    _log_start(task, manifest, mesh, update(step_fn.phase(meta["step"])), c)

    # 3. The loop.
    run = _Run(
        config, task, manifest, mesh, folder, checkpoints, put, sampler,
        seconds=meta["seconds"],
    )
    try:
      return run.loop(
          state, meta["step"], lambda step: update(step_fn.phase(step)), data
      )
    finally:
      run.close()


def _resolve(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
  """Settles what "auto" leaves to the backend and changes the result.

  What is stored is what was used: on another backend a resumed run goes on
  with the generator it began with, or is refused.
  """
  config = config.copy_and_resolve_references()
  if config.train.prng == "auto":
    config.train.prng = backend.current().prng
  return config


def _new_state(step_fn, shardings, abstract):
  """A state of step 0; its frozen leaves, which are read, stay abstract."""
  trained = lambda: step_lib.without_frozen(step_fn.init())
  state = jax.jit(trained, out_shardings=step_lib.without_frozen(shardings))()
  return abstract | state


def _initial(
    config: ml_collections.ConfigDict,
    task: Any,
    manifest: Manifest,
    workdir: str,
    has_frozen: bool,
) -> initial.Initial | None:
  """What a new run begins with instead of random parameters, if anything.

  Read before a workdir is made: it may be missing or of another shape. A
  resumed run reads it for its frozen leaves, which no checkpoint holds.
  """
  c = config.train
  if has_frozen and not c.init_from:
    raise errors.UserError(
        f"task.name={config.task.name!r} trains beside a frozen model: say"
        " which with train.init_from."
    )
  if not c.init_from:
    return None
  if not has_frozen and checkpoint.saved_steps(files.expand(workdir)):
    return None
  if c.init_accumulators and config.optimizer.name != "adagrad":
    raise errors.UserError(
        "train.init_accumulators needs optimizer.name='adagrad'."
    )
  tokenizer = text.load_tokenizer(manifest.tokenizer_folder)
  return initial.read(
      c, task.model, tokenizer, config.optimizer.initial_accumulator,
      frozen=has_frozen,
  )


class _Run:
  """What the loop holds on to between steps."""

  def __init__(self, config, task, manifest, mesh, folder, checkpoints, put,
               sampler, seconds):
    self.c = config.train
    self.task = task
    self.manifest = manifest
    self.folder = folder
    self.checkpoints = checkpoints
    self.put = put
    self.sampler = sampler
    self.seconds = seconds  # Trained by earlier starts of this run.
    self.started = time.monotonic()
    self.main = jax.process_index() == 0
    self.writer = metrics.MetricWriter(folder) if self.main else None
    self.eval_step = evaluation.make_eval_step(task)
    self.tokens_per_step = self.c.batch_size * manifest.sequence_length
    self.peak = flops.peak_flops(jax.devices()[0])
    if jax.devices()[0].platform != "cpu":  # Virtual CPU devices share cores.
      self.peak *= mesh.size
    self.rates = {"tokens_per_second": 0.0}
    self.stop = threading.Event()
    self._old_handler = None

  def loop(self, state, start, update, data):
    """Updates from step `start` on; returns the last evaluation."""
    c = self.c
    self._catch_sigterm()
    self.progress = progress_lib.Progress(
        c.steps, start,
        self.task.flops_per_token(self.manifest.sequence_length), self.peak,
        show=self.main,
    )
    step, result, pending = start, None, None
    if self._time_is_up() and start < c.steps:
      _LOG.warning(
          "train.max_minutes=%g is used up: %.1f minutes in earlier starts of"
          " this run. Raise it to go on.", c.max_minutes, self.seconds / 60,
      )
    if not self.manifest.size("validation"):
      _LOG.warning(
          "The data set has no validation sequences: there is no evaluation."
          " For one, prepare with a larger data.validation_fraction."
      )
    batch_iterator = data.iterate(start)
    while step < c.steps and not self._time_is_up() and not self.stop.is_set():
      batch = self.put(_inputs(next(batch_iterator)))
      with jax.transfer_guard("disallow"):
        state, values = update(step)(state, batch)
      # The device is at work on this step: look at the one before it. Waiting
      # for it bounds the steps that hold temporaries at one time.
      if pending is not None:
        jax.block_until_ready(pending)
        self._look_at(step, pending)
      step, pending, result = step + 1, values, None
      self.progress.step(self.tokens_per_step)
      if step % c.checkpoint_every == 0:
        self._save(step, state)
      if step % c.eval_every == 0:
        result = self._evaluate(step, step_lib.all_params(state))
    if pending is not None:
      self._look_at(step, pending)
    if step not in self.checkpoints.steps():
      self._save(step, state)
    self.checkpoints.wait()
    if self.stop.is_set():
      _LOG.info("Saved at step %d: the same command goes on from there.", step)
      raise KeyboardInterrupt
    if result is None:
      result = self._evaluate(step, step_lib.all_params(state))
    return {
        **result, "step": step, "seconds": self._seconds(), **self.rates
    }

  def close(self):
    """Ends threads and files, whatever happened."""
    if self._old_handler is not None:
      signal.signal(signal.SIGTERM, self._old_handler)
    if self.writer:
      self.writer.close()
    if hasattr(self, "progress"):
      self.progress.close()
    self.checkpoints.close()

  def _look_at(self, step, values):
    """Checks and logs the metrics of update number `step`, 1 the first."""
    c = self.c
    if step % c.log_every and step != c.steps:
      return
    values = jax.device_get(values)
    if values["skipped_in_row"] >= c.stop_after_bad_steps:
      raise errors.UserError(
          f"Gradients were not finite {values['skipped_in_row']} steps in a row"
          f" (by step {step}); these updates were left out. The last checkpoint"
          " is good. Lower optimizer.learning_rate or lengthen"
          " optimizer.warmup_steps."
      )
    self.rates = self.progress.rates()
    values = {k: float(v) for k, v in values.items()}
    self.progress.show(values["loss"], self.rates)
    if self.main:
      self.writer.write(step, {"train": {**values, **self.rates}})

  def _evaluate(self, step, params):
    jax.block_until_ready(params)  # Or the update's time would not count.
    if not self.manifest.size("validation"):
      return {"loss": None, "perplexity": None, "perplexity_by_code": {}}
    with self.progress.pause():
      result = evaluation.perplexities(
          self.eval_step,
          params,
          batches.evaluation_batches(
              self.manifest, "validation", self.c.batch_size,
              self.c.eval_sequences,
          ),
          lambda batch: self.put(_local_rows(batch)),
          self.manifest.labels,
      )
      if self.main:
        self.writer.write(step, {"validation": result})
        self.progress.write(
            f"step {step}: validation perplexity {result['perplexity']:.2f}"
        )
        if self.sampler and self.c.sample_tokens:
          self._sample(step, params)
    return result

  def _sample(self, step, params):
    text = self.sampler(self.task.model, self.task.plain(params))
    file = self.folder / "samples.txt"
    with errors.naming(file), file.open("a") as f:
      f.write(f"==== step {step}\n{text}\n")

  def _save(self, step, state):
    jax.block_until_ready(state)
    with self.progress.pause():
      self.checkpoints.save(
          step, step_lib.without_frozen(state), self._seconds()
      )

  def _seconds(self):
    return self.seconds + time.monotonic() - self.started

  def _time_is_up(self):
    return 0 < self.c.max_minutes * 60 <= self._seconds()

  def _catch_sigterm(self):
    """A preempted machine gets a warning: finish the step, save, leave."""
    if threading.current_thread() is threading.main_thread():
      self._old_handler = signal.signal(
          signal.SIGTERM, lambda *_: self.stop.set()
      )


def _abstract(step_fn, shardings):
  shapes = jax.eval_shape(step_fn.init)
  return jax.tree.map(
      lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
      shapes, shardings,
  )


def _inputs(batch):
  """What the model reads of a batch."""
  return {k: v for k, v in batch.items() if k != "source"}


def _put(batch_sharding, batch):
  """This process's rows -> arrays over all devices."""
  return {
      k: jax.make_array_from_process_local_data(batch_sharding, np.asarray(v))
      for k, v in batch.items()
  }


def _local_rows(batch):
  count, index = jax.process_count(), jax.process_index()
  return {k: np.split(v, count)[index] for k, v in batch.items()}


def _check(config, manifest, mesh):
  c = config.train
  model_length = config.model.max_length
  tasks.check(config, manifest)
  if config.optimizer.warmup_steps >= c.steps:
    _LOG.warning(
        "optimizer.warmup_steps=%d: the learning rate is still rising when the"
        " last of %d steps is done.", config.optimizer.warmup_steps, c.steps,
    )
  if manifest.sequence_length > model_length:
    raise errors.UserError(
        f"The data's sequences have {manifest.sequence_length} tokens, more"
        f" than model.max_length={model_length}: raise it, or prepare with a"
        " shorter data.sequence_length."
    )
  for name in ("steps", "batch_size", "accumulate", "log_every", "eval_every",
               "checkpoint_every", "keep_checkpoints", "stop_after_bad_steps",
               "loss_chunk"):
    if c[name] < 1:
      raise errors.UserError(f"train.{name}={c[name]} must be at least 1.")
  for name in ("eval_sequences", "sample_tokens", "max_minutes"):
    if not 0 <= c[name] < float("inf"):
      raise errors.UserError(f"train.{name}={c[name]} must be 0 or more.")
  if not 0 <= c.seed < 2**32:
    raise errors.UserError(f"train.seed={c.seed} must be in [0, 2^32).")
  if c.prng not in ("auto", "threefry2x32", "rbg"):
    raise errors.UserError(
        f"train.prng={c.prng!r} is not one of 'auto', 'threefry2x32', 'rbg'."
    )
  shares = mesh.shape["data"] * mesh.shape["fsdp"]
  if c.batch_size % (c.accumulate * shares):
    raise errors.UserError(
        f"train.batch_size={c.batch_size} is not a multiple of train.accumulate"
        f"={c.accumulate} times {shares} devices of the data and fsdp axes."
    )


def _num_parameters(task) -> str:
  """How many parameters there are, and how many of them train."""
  abstract = jax.eval_shape(task.init, jax.random.key(0))
  text = f"{transformer.num_parameters(task.model):,} parameters"
  masks = [trainable.mask(abstract, p.rule) for p in task.phases]
  first = trainable.select(abstract, masks[0])
  count = sum(x.size for x in jax.tree.leaves(first))
  total = sum(x.size for x in jax.tree.leaves(abstract))
  return text if count == total else f"{text} frozen at first, {count:,} train"


def _log_start(task, manifest, mesh, update, c):
  memory = update.memory_analysis()
  peak = (
      memory.argument_size_in_bytes + memory.output_size_in_bytes
      - memory.alias_size_in_bytes + memory.temp_size_in_bytes
  )
  _LOG.info(
      "%s; %s training sequences of %d tokens under %d codes;"
      " mesh %s; %.0f MB a device in a step; %d steps of %d sequences.",
      _num_parameters(task),
      f"{manifest.size('train'):,}",
      manifest.sequence_length,
      len(manifest.codes),
      dict(mesh.shape),
      peak / 1e6,
      c.steps,
      c.batch_size,
  )
