"""The training loop: one run from its first step, or from where it stopped."""

import contextlib
import functools
import logging
from typing import Any

import jax
import ml_collections

from ctrl_jax import backend, errors, programs, text
from ctrl_jax.data import batches, files
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.models import transformer
from ctrl_jax.tasks import make as tasks
from ctrl_jax.training import (
  checkpoint,
  checkpoint_manager,
  frozen_states,
  initial,
  optimizer,
  preemption,
  sharding,
  texts_first,
  trainable,
)
from ctrl_jax.training import profile as profile_lib
from ctrl_jax.training import rows as rows_lib
from ctrl_jax.training import run as run_lib
from ctrl_jax.training import step as step_lib
from ctrl_jax.training import workdir as workdir_lib

_LOG = logging.getLogger(__name__)


def train(
    config: ml_collections.ConfigDict,
    workdir: str,
    manifest: Manifest,
    stop: preemption.Watch,
    sampler: run_lib.Sampler | None = None,
    profile: str = "",
) -> dict[str, Any]:
  """Trains until `config.train.steps`; the same call resumes.

  A run that was killed at any step and called again ends with the same
  parameters to the bit as one that was not (same machine, same devices).

  Args:
    config: see `ctrl_jax.config.default`.
    workdir: folder of this run.
    manifest: the prepared data set.
    stop: notices SIGTERM, also what has come before.
    sampler: makes the sample texts of an evaluation.
    profile: steps to profile into the workdir, "100:105", or none.

  Returns:
    The last evaluation, with `step`, `seconds`, `tokens_per_second`, `goodput`
    and `bytes_a_device`, what the last phase's update holds.

  Raises:
    errors.UserError: configuration, data and workdir do not fit each other, or
      gradients are not finite `stop_after_bad_steps` times in a row.
    errors.Preempted: SIGTERM came, and a checkpoint of the last step is there.
  """
  config = _resolve(config)
  c = config.train
  # All that can be wrong with the configuration, before a workdir is made.
  task = tasks.make(config, manifest.vocab_size)
  optimizer.OptimizerConfig(**config.optimizer)
  rules = sharding.ShardingRules()
  mesh = sharding.make_mesh(**config.mesh)
  _check(config, manifest, mesh)
  if sampler:
    _check_sampling(config, task)
  profiled = profile_lib.parse(profile, c.steps)
  workdir_lib.check_reachable(workdir)

  with sharding.use(mesh, rules):
    # 1. Abstract state -> shardings -> the state itself, restored or new.
    step_fn = step_lib.from_config(config, task)
    shardings = sharding.shardings(
        mesh, rules, jax.eval_shape(step_fn.init_boxed)
    )
    abstract = _abstract(step_fn, shardings)
    start = _initial(config, task, manifest, workdir, "frozen" in abstract)
    base_hash = start.hash if "frozen" in abstract else ""
    states = frozen_states.plan(c.frozen_states, task, manifest, base_hash)
    folder = workdir_lib.open_workdir(workdir, config, manifest, base_hash)
    checkpoints = checkpoint_manager.Checkpoints(folder, c.keep_checkpoints)
    if checkpoints.steps():
      state, meta = _restore(checkpoints, abstract, start, task)
      _LOG.info("Resumed at step %d of %d.", meta["step"], c.steps)
    else:
      state = _new_state(step_fn, shardings, abstract, start, task)
      meta = {"step": 0, "seconds": 0.0}

    # 2. The update, compiled. SIGTERM meanwhile: the loop makes no step.
    rows = rows_lib.Rows(sharding.batch_sharding(mesh, rules), c.batch_size)
    data = batches.TrainBatches(
        manifest, c.batch_size, c.seed, rows.numbers, extra=states
    )
    update = None
    with contextlib.suppress(errors.Preempted), stop.interrupting():
      if states is not None:
        of_ids = functools.partial(
            jax.jit(task.frozen_states), step_lib.all_params(state)
        )
        states.make(of_ids, manifest, c.batch_size)
      if not meta["step"]:
        state = texts_first.begin(state, task, data, rows, c.batch_size)
      first = rows.put(run_lib.inputs(data.batch(meta["step"])))
      update = _compile(step_fn, mesh, shardings, abstract, first)
      update(c.steps - 1)
      _log_start(task, manifest, mesh, update(meta["step"]), c)

    # 3. The loop.
    run = run_lib.Run(
        config, task, manifest, mesh, folder, checkpoints, rows, sampler,
        profiled, stop, meta,
    )
    try:
      result = run.loop(state, update, data)
      return result | dict(
          bytes_a_device=programs.peak_bytes(update(c.steps - 1))
      )
    finally:
      run.close()


def _compile(step_fn, mesh, shardings, abstract, batch):
  """Returns: step -> the compiled update of its phase, (state, batch) -> ....

  The old state's memory becomes the new one's.
  """
  jitted = jax.jit(
      step_fn, donate_argnums=0, static_argnums=2,
      out_shardings=(shardings, sharding.replicated(mesh)),
  )

  @functools.cache
  def update(phase):
    return jitted.lower(abstract, batch, phase).compile()

  return lambda step: update(step_fn.phase(step))


def _resolve(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
  """Settles what "auto" leaves to the backend and changes the result.

  What is stored is what was used: on another backend a resumed run goes on
  with the generator it began with, or is refused.
  """
  config = config.copy_and_resolve_references()
  if config.train.prng == "auto":
    config.train.prng = backend.current().prng
  return config


def _restore(checkpoints, abstract, start, task):
  """A checkpoint's state, its frozen leaves those of `start`; and its meta."""
  state, meta = checkpoints.restore(step_lib.without_frozen(abstract))
  if "frozen" in abstract:
    state |= initial.put({"frozen": abstract["frozen"]}, start, task)
  return state, meta


def _new_state(step_fn, shardings, abstract, start, task):
  """A state of step 0: random, or what `start` has in its places."""
  trained = lambda: step_lib.without_frozen(step_fn.init())
  state = jax.jit(trained, out_shardings=step_lib.without_frozen(shardings))()
  # Frozen leaves, which are read, are abstract until then.
  state = abstract | state
  return state if start is None else initial.put(state, start, task)


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


def _abstract(step_fn, shardings):
  shapes = jax.eval_shape(step_fn.init)
  return jax.tree.map(
      lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
      shapes, shardings,
  )


def _check(config, manifest, mesh):
  c = config.train
  model_length = config.model.max_length
  tasks.check(config, manifest)
  if config.optimizer.warmup_steps >= c.steps:
    _LOG.warning(
        "optimizer.warmup_steps=%d: the learning rate is still rising when the"
        " last of %d steps is done.", config.optimizer.warmup_steps, c.steps,
    )
  if 0 < config.optimizer.decay_steps < c.steps:
    raise errors.UserError(
        f"optimizer.decay_steps={config.optimizer.decay_steps}: the learning"
        f" rate is 0 from there on, before train.steps={c.steps}. Set them to"
        " the same."
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


def _check_sampling(config, task):
  if config.train.sample_tokens and not hasattr(task, "plain"):
    raise errors.UserError(
        f"train.sample_tokens={config.train.sample_tokens}: what task.name="
        f"{config.task.name!r} trains is no language model by itself, which"
        " samples on the way are of. Set it to 0, and use python -m"
        " ctrl_jax.sample afterwards."
    )


def _num_parameters(task) -> str:
  """How many parameters there are, and how many of them train."""
  text = f"{transformer.num_parameters(task.model):,} parameters"
  count, total = trainable.sizes(task)
  return text if count == total else f"{text} frozen at first, {count:,} train"


def _log_start(task, manifest, mesh, update, c):
  _LOG.info(
      "%s; %s training sequences of %d tokens under %d codes;"
      " mesh %s; %.0f MB a device in a step; %d steps of %d sequences%s.",
      _num_parameters(task),
      f"{manifest.size('train'):,}",
      manifest.sequence_length,
      len(manifest.codes),
      dict(mesh.shape),
      programs.peak_bytes(update) / 1e6,
      c.steps,
      c.batch_size,
      # The bar counts steps, and knows of no time limit.
      f", or {c.max_minutes:g} minutes" if c.max_minutes else "",
  )
