"""Methods trained and measured one after the other, to be gone on with.

A method is trained in pieces, and measured after each; every measurement is a
line of `METHOD-SEED.jsonl`, so a run that ends is gone on with by the same
call, from the last checkpoint and the last line. What is measured is for an
experiment to say.
"""

import dataclasses
import logging
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import ctrl_jax
from ctrl_jax import errors, prepare, saved_model, train
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.experiments import config_files, lines
from ctrl_jax.experiments import models as models_lib
from ctrl_jax.tasks import make as tasks

_LOG = logging.getLogger("ctrl_jax.experiment")
_TIME_IS_UP = "Time is up: the same command goes on from here."


@dataclasses.dataclass(frozen=True)
class Method:
  """A row of an experiment's table; experiments add fields.

  Attributes:
    name: in table and legend.
    config: file of the training's configuration, `FILE.py` or
      `FILE.py:ARGUMENT`; "" for the experiment's base as it is.
    seeds: one run each.
  """

  name: str
  config: str = ""
  seeds: tuple[int, ...] = (0,)


class Trained(NamedTuple):
  """A method at a point of its training.

  Attributes:
    model: a `LanguageModel`.
    data: what it was trained on; None for the base as it is.
    workdir: where; None likewise.
    cost: of the training so far, for the line: tokens, flops; train_share and
      train_documents, what it had to learn from; train_tokens_per_second, None
      if there was nothing left to do; train_bytes, what an update holds.
  """

  model: Any
  data: Manifest | None
  workdir: pathlib.Path | None
  cost: Mapping[str, Any]


class Experiment:
  """Trains methods and measures them.

  Args:
    config: `methods`, the fields of `method` each; `base`, a model's folder;
      `code`, in front of all prompts, "" for none; `workdirs`, a folder for one
      of each method and seed; `steps`, the budget, 0 for each configuration's
      own; `fractions` of it where is measured; perhaps `models`, see
      `models.make`, which are trained first; and what the experiment itself
      wants.
    output_folder: where lines and figures go.
    minutes: end before a piece that would begin later than this; 0: never.

  Raises:
    errors.UserError: no methods, two of one name, a field that none has, or
      seeds that are not numbers.
  """

  method = Method
  # Fields that the configuration needs, whatever the methods.
  fields: tuple[str, ...] = ("base", "code", "workdirs", "steps", "fractions")
  # Properties that all methods share.
  shared: tuple[str, ...] = ()

  def __init__(self, config, output_folder, minutes: float = 0.0):
    self.config = config
    self.require("methods")
    self.folder = pathlib.Path(output_folder)
    self._end = time.monotonic() + minutes * 60 if minutes else float("inf")
    self.methods = [self._method(dict(fields)) for fields in config.methods]
    names = [m.name for m in self.methods]
    if len(set(names)) < len(names):
      raise errors.UserError(f"Two methods have one name: {', '.join(names)}.")

  def _method(self, fields):
    known = [f.name for f in dataclasses.fields(self.method)]
    for name in fields:
      if name not in known:
        raise errors.UserError(
            f"A method has no field {name!r}. {errors.nearest(name, known)}"
        )
    name, seeds = fields.get("name"), fields.get("seeds", (0,))
    # It is part of files' names.
    if not name or not isinstance(name, str) or "/" in name:
      raise errors.UserError(
          f"A method has name={name!r}: give it one without slashes."
      )
    if not isinstance(seeds, (tuple, list)) or not seeds or not all(
        type(seed) is int and seed >= 0 for seed in seeds
    ):
      raise errors.UserError(
          f"The method {name!r} has seeds={seeds!r}: give a tuple of numbers"
          " from 0 on, as seeds=(0, 1, 2)."
      )
    return self.method(**fields | dict(seeds=tuple(seeds)))

  def require(self, *fields: str) -> None:
    """Checks that the configuration has fields.

    Raises:
      errors.UserError: names those that it has not.
    """
    missing = [name for name in fields if name not in self.config]
    if missing:
      raise errors.UserError(
          f"The experiment has no {', '.join(missing)}: start from"
          f" configs/{self.config.get('kind', '*')}_experiment.py."
      )

  def measure(self, method: Method, trained: Trained, seed: int) -> Mapping:
    """Returns what a line says of a method, JSON types; experiments say it."""
    raise NotImplementedError

  def needs(
      self, methods: Sequence[Method]
  ) -> tuple[Iterable[str], Iterable[str]]:
    """Returns `fields` and `shared`, with what only some methods need."""
    del methods
    return self.fields, self.shared

  def check_method(self, method: Method) -> None:
    """Checks a method's fields; experiments check theirs.

    Raises:
      errors.UserError: a field says what is not there.
    """
    if method.config:
      config_files.find(method.config)

  def check(self, methods: Sequence[Method]) -> None:
    """Checks what the configuration says, before any training.

    Args:
      methods: that are to be run.

    Raises:
      errors.UserError: something is missing or unknown.
    """
    fields, _ = self.needs(methods)
    self.require(*fields)
    for method in methods:
      self.check_method(method)
    for model in self.config.get("models", ()):
      config_files.find(model["config"])

  def read_shared(self, methods: Sequence[Method]) -> None:
    """Reads what is shared, before any method's training.

    Args:
      methods: that are to be run.

    Raises:
      errors.UserError: something is missing or damaged.
    """
    saved_model.read_config(self.config.base)
    for name in self.needs(methods)[1]:
      getattr(self, name)
    if self.config.code:
      ctrl_jax.load(self.config.base).tokenizer.code_ids(self.config.code)

  def untrained(self, method: Method) -> Any:
    """Returns the model of a method without a configuration: the base."""
    del method
    return ctrl_jax.load(self.config.base)

  def run(self, only: str = "") -> bool:
    """Trains and measures; returns whether everything is done.

    Args:
      only: a method's name; "" for all.

    Raises:
      errors.UserError: an unknown method, or what its training raises.
    """
    names = [m.name for m in self.methods]
    if only and only not in names:
      raise errors.UserError(
          f"There is no method {only!r}. {errors.nearest(only, names)}"
      )
    methods = [m for m in self.methods if only in ("", m.name)]
    self.check(methods)
    if not models_lib.make(self.config.get("models", ()), self._is_time_up):
      _LOG.info(_TIME_IS_UP)
      return False
    self.read_shared(methods)
    for method in methods:
      for seed in method.seeds:
        if not self._run(method, seed):
          _LOG.info(_TIME_IS_UP)
          return False
    return True

  def _is_time_up(self) -> bool:
    return time.monotonic() > self._end

  def _run(self, method: Method, seed: int) -> bool:
    file = self.folder / f"{method.name}-{seed}.jsonl"
    done = {line["step"] for line in lines.read(file)}
    if method.config:
      steps, train_to = self._training(method, seed)
    else:
      steps = [0]
      train_to = lambda step: Trained(self.untrained(method), None, None, {})
    for step in steps:
      if step in done:
        continue
      if self._is_time_up():
        return False
      started = time.monotonic()
      _LOG.info("%s, seed %d, step %d", method.name, seed, step)
      trained = train_to(step)
      line = dict(
          method=method.name, seed=seed, step=step, **trained.cost,
          **self.measure(method, trained, seed),
      )
      line["minutes"] = (time.monotonic() - started) / 60
      lines.append(file, line)
    return True

  def _training(
      self, method: Method, seed: int
  ) -> tuple[list[int], Callable[[int], Trained]]:
    """The steps to measure at, and what trains to one."""
    config = config_files.load(method.config).copy_and_resolve_references()
    config.train.seed = seed
    config.train.sample_tokens = 0
    total = self.config.steps or config.train.steps
    config.train.max_minutes = 0.0  # The budget is of steps.
    data = prepare.prepare(config)
    task, length = tasks.make(config, data.vocab_size), data.sequence_length
    workdir = pathlib.Path(self.config.workdirs) / f"{method.name}-{seed}"

    def train_to(step):
      part = config.copy_and_resolve_references()
      part.train.steps = step
      part.train.checkpoint_every = min(config.train.checkpoint_every, step)
      result = train.train(part, str(workdir))
      if result["step"] != step:
        raise errors.UserError(
            f"{str(workdir)!r} is at step {result['step']} already, and step"
            f" {step} is not measured yet: delete it, or that step's fraction."
        )
      tokens = step * config.train.batch_size * length
      cost = dict(
          tokens=tokens, flops=tokens * task.flops_per_token(length),
          train_share=config.data.train_share,
          train_documents=sum(
              source.splits["train"].documents for source in data.sources
          ),
          train_tokens_per_second=result["tokens_per_second"] or None,
          train_bytes=result["bytes_a_device"],
      )
      return Trained(ctrl_jax.load(workdir), data, workdir, cost)

    steps = [max(1, round(total * f)) for f in self.config.fractions]
    return sorted(set(steps)), train_to
