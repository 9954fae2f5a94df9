"""Every method on the keyword task, with one budget, resuming where it stopped.

A method is trained in pieces, and measured after each; every measurement is a
line of `METHOD-SEED.jsonl`, so a run that ends is gone on with by the same
call, from the last checkpoint and the last line.
"""

import dataclasses
import functools
import importlib.util
import json
import logging
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import ml_collections

import ctrl_jax
from ctrl_jax import errors, prepare, train
from ctrl_jax.data import files
from ctrl_jax.data.keyword_sets import KeywordSet
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.evaluation import output, unigram
from ctrl_jax.experiments import keyword_point
from ctrl_jax.tasks import make as tasks

_LOG = logging.getLogger("ctrl_jax.experiment")


@dataclasses.dataclass(frozen=True)
class Method:
  """A row of the table.

  Attributes:
    name: in table and legend.
    config: file of the training's configuration, `FILE.py` or
      `FILE.py:ARGUMENT`; "" for a method that only samples from the base.
    prompt: template of `{prefix}` and `{keyword}`.
    attribute: template of the attribute; "" for none.
    seeds: one run each.
    frozen: whether the base's weights stay what they are.
  """

  name: str
  config: str = ""
  prompt: str = "{prefix}"
  attribute: str = ""
  seeds: tuple[int, ...] = (0,)
  frozen: bool = False


def load_config(name: str) -> ml_collections.ConfigDict:
  """Returns what a configuration's file makes.

  Args:
    name: `FILE.py` or `FILE.py:ARGUMENT`, as after --config.

  Raises:
    errors.UserError: there is no such file.
  """
  file, _, argument = name.partition(":")
  path = pathlib.Path(files.expand(file))
  if not path.is_file():
    raise errors.UserError(f"There is no configuration {str(path)!r}.")
  spec = importlib.util.spec_from_file_location(path.stem, path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module.get_config(*([argument] if argument else []))


class Experiment:
  """What all methods share: prompts, scorer, options.

  Args:
    config: see configs/keyword_experiment.py.
    output_folder: where lines and figures go.
    minutes: end before a piece that would begin later than this; 0: never.
  """

  def __init__(self, config, output_folder, minutes: float = 0.0):
    self.config = config
    self.folder = pathlib.Path(output_folder)
    self._end = time.monotonic() + minutes * 60 if minutes else float("inf")
    self.methods = [
        Method(**{**m, "seeds": tuple(m.get("seeds", (0,)))})
        for m in map(dict, config.methods)
    ]
    names = [m.name for m in self.methods]
    if len(set(names)) < len(names):
      raise errors.UserError(f"Two methods have one name: {', '.join(names)}.")

  @functools.cached_property
  def triples(self):
    """The held-out prompts, the same for all methods."""
    found = KeywordSet.load(self.config.keywords).read("test")
    return found[: self.config.num_prompts]

  @functools.cached_property
  def scorer(self):
    """The model that judges fluency, and its unigram probabilities."""
    model = ctrl_jax.load(self.config.scorer)
    data = Manifest.load(files.expand(self.config.scorer_data))
    return model, unigram.count(data)

  @functools.cached_property
  def base_data(self) -> Manifest:
    """What the base was trained on: its validation split tells forgetting."""
    return Manifest.load(files.expand(self.config.base_data))

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
    for method in self.methods:
      for seed in method.seeds if only in ("", method.name) else ():
        if not self._run(method, seed):
          _LOG.info("Time is up: the same command goes on from here.")
          return False
    return True

  def _run(self, method: Method, seed: int) -> bool:
    file = self.folder / f"{method.name}-{seed}.jsonl"
    done = {line["step"] for line in read_lines(file)}
    if method.config:
      steps, train_to = self._training(method, seed)
    else:
      steps = [0]
      train_to = lambda step: (ctrl_jax.load(self.config.base), {})
    for step in steps:
      if step in done:
        continue
      if time.monotonic() > self._end:
        return False
      started = time.monotonic()
      _LOG.info("%s, seed %d, step %d", method.name, seed, step)
      model, cost = train_to(step)
      line = dict(
          method=method.name, seed=seed, step=step, **cost,
          **self._measure(method, model, seed),
      )
      line["minutes"] = (time.monotonic() - started) / 60
      append_line(file, line)
    return True

  def _training(self, method: Method, seed: int):
    """The steps to measure at; what trains to one: (model, what it cost)."""
    config = load_config(method.config).copy_and_resolve_references()
    config.train.seed = seed
    config.train.sample_tokens = 0
    total = config.train.steps
    data = prepare.prepare(config)
    task = tasks.make(config, data.vocab_size)
    workdir = str(pathlib.Path(self.config.workdirs) / f"{method.name}-{seed}")

    def train_to(step):
      part = config.copy_and_resolve_references()
      part.train.steps = step
      part.train.checkpoint_every = min(config.train.checkpoint_every, step)
      result = train.train(part, workdir)
      model = ctrl_jax.load(workdir)
      tokens = step * config.train.batch_size * data.sequence_length
      flops = tokens * task.flops_per_token(data.sequence_length)
      return model, dict(
          tokens=tokens,
          flops=flops,
          train_tokens_per_second=result["tokens_per_second"],
          test_perplexity=keyword_point.perplexity(model, data, "test"),
      )

    steps = [max(1, round(total * f)) for f in self.config.fractions]
    return sorted(set(steps)), train_to

  def _measure(self, method: Method, model: Any, seed: int) -> dict[str, Any]:
    scorer, counted = self.scorer
    found = keyword_point.measure(
        model, self.triples, scorer, counted, code=self.config.code,
        scorer_code=self.config.code, prompt=method.prompt,
        attribute=method.attribute, seed=seed,
        max_new_tokens=self.config.num_tokens, temperature=1.0, penalty=1.0,
        batch_size=self.config.batch_size,
    )
    if method.config and not method.frozen:
      # A frozen model forgets nothing.
      found["base_perplexity"] = keyword_point.perplexity(
          model, self.base_data, "validation", self.config.base_sequences
      )
    return found


def read_lines(file: pathlib.Path) -> list[dict[str, Any]]:
  """Returns the measurements in a file; none if there is none.

  Raises:
    errors.UserError: a damaged line.
  """
  if not file.exists():
    return []
  lines = []
  for number, text in enumerate(file.read_text(encoding="utf-8").split("\n")):
    if not text:
      continue
    try:
      lines.append(json.loads(text))
    except ValueError as e:
      raise errors.UserError(
          f"{file}, line {number + 1} is damaged ({e}): delete it, and the same"
          " command measures it again."
      ) from e
  return lines


def append_line(file: pathlib.Path, line: Mapping[str, Any]) -> None:
  """Adds a measurement, all of it or nothing."""
  lines = [*read_lines(file), line]
  text = "".join(
      json.dumps(x, ensure_ascii=False, allow_nan=False) + "\n" for x in lines
  )
  output.write_bytes(file, text.encode("utf-8"))


