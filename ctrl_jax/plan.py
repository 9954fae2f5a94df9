"""What training would take on a slice of TPUs, without having one.

  python -m ctrl_jax.plan --config=configs/ctrl_1b.py --topology=v3:8x16

Compiles the run's own update for the named slice and prints, for one device:
memory against the chip's, arithmetic, memory traffic and messages, bounds on
the time of a step, and the speed to expect; also decoding's. Slices: v3:8x16,
v4:2x2x2, v5e:4x4, v5p:2x2x1, v6e:2x4, ... in chips; cpu:8 and gpu:8 for virtual
devices, without times. Exits with 1 when it does not fit, and says what would.
Fields can be overridden: --config.train.batch_size=64.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from absl import flags

from ctrl_jax import command, errors

FLAGS = flags.FlagValues()
_CONFIG = command.define_config(FLAGS)
_TOPOLOGY = flags.DEFINE_string(
    "topology", None, "Slice to plan for: v3:8x16, v5e:4x4, gpu:8, cpu:8.",
    flag_values=FLAGS,
)
_DECODE = flags.DEFINE_list(
    "decode", ["1", "8", "32", "128"],
    "Batch sizes to plan decoding for, on one device; empty for none.",
    flag_values=FLAGS,
)
_SEARCH = flags.DEFINE_boolean(
    "search", True, "When it does not fit, compile others until one does.",
    flag_values=FLAGS,
)
_JSON = flags.DEFINE_boolean(
    "json", False, "Print JSON instead of text.", flag_values=FLAGS
)

_DECODE_STEPS = 16  # In a loop, as generation has them by default.
_REMAT = ("none", "dots", "full")  # From the most memory to the least.


def plan(
    config,
    topology: str,
    *,
    name: str = "",
    decode: tuple[int, ...] = (),
    search: bool = True,
) -> dict[str, Any]:
  """Plans what `config` describes on a slice.

  Args:
    config: as `ctrl_jax.config.default` makes; the vocabulary is
      `tokenizer.vocab_size`.
    topology: as `v3:8x16`, see `planning.topologies.find`.
    name: how the plan calls the configuration.
    decode: batch sizes of decoding steps to plan as well, on one device; of
      the language model alone, without what an auxiliary or a CVAE adds.
    search: whether to look for a setting that fits when this one does not.

  Returns:
    What `planning.report.text` prints: sizes in bytes and times in seconds of
    one device; `training`, `instead` and `decoding` hold the results.

  Raises:
    errors.UserError: an unknown slice, or a configuration that does not fit
      its devices' number.
  """
  from ctrl_jax.planning import topologies

  found = topologies.find(topology)
  config = resolve(config, found.platform)
  training = _training(config, found)
  instead = None
  if search and training["memory"]["fits"] is False:
    instead = nearest(
        config, len(found.devices),
        lambda c: _training(c, found)["memory"],
    )
  trained, parameters = _num_parameters(config)
  model = _task(config).model
  return {
      "config": name,
      "task": config.task.name,
      "topology": topology,
      "devices": len(found.devices),
      "mesh": dict(_mesh(config, found).shape),
      "parameters": parameters,
      "trained": trained,
      "batch_size": config.train.batch_size,
      "sequence_length": config.data.sequence_length,
      "accumulate": config.train.accumulate,
      "remat": config.model.remat,
      "loss_chunk": config.train.loss_chunk,
      "training": training,
      "instead": instead,
      "decoding": [_decoding(model, found, b) for b in decode],
  }


def resolve(config, platform: str):
  """Settles what "auto" leaves to the backend, for the slice's platform."""
  from ctrl_jax import backend

  config = config.copy_and_resolve_references()
  choices = backend.of(platform)
  if config.model.dtype == "auto":
    config.model.dtype = choices.dtype.name
  if config.model.scan_layers == "auto":
    with config.unlocked(), config.ignore_type():
      config.model.scan_layers = choices.scan_layers
  if config.train.prng == "auto":
    config.train.prng = choices.prng
  return config


def nearest(
    config, num_devices: int, memory: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
  """Looks for the nearest setting that fits.

  Args:
    config: what does not fit.
    num_devices: of the slice.
    memory: compiles a configuration: its `fits` and `peak`.

  Returns:
    `overrides` of the first of `alternatives` that fits and its `peak`, or {}.
  """
  for overrides in alternatives(config, num_devices):
    other = config.copy_and_resolve_references()
    other.update_from_flattened_dict(overrides)
    found = memory(other)
    if found["fits"]:
      return {"overrides": overrides, "peak": found["peak"]}
  return {}


def alternatives(config, num_devices: int) -> Iterator[dict[str, Any]]:
  """Yields settings that need less and less memory, as overrides.

  First more recomputation, which changes no result; then micro-batches, which
  change dropout alone; then smaller batches.
  """
  place = _REMAT.index(config.model.remat)
  for remat in _REMAT[place + 1:]:
    yield {"model.remat": remat}
  overrides = {} if config.model.remat == "full" else {"model.remat": "full"}
  batch, accumulate = config.train.batch_size, 2 * config.train.accumulate
  while batch % (accumulate * num_devices) == 0:
    yield overrides | {"train.accumulate": accumulate}
    accumulate *= 2
  while batch % (2 * num_devices) == 0:
    batch //= 2
    yield overrides | {"train.accumulate": 1, "train.batch_size": batch}


def _mesh(config, topology):
  from ctrl_jax.training import sharding

  return sharding.make_mesh(**config.mesh, devices=topology.devices)


def _training(config, topology) -> dict[str, Any]:
  """Compiles the update of a configuration and estimates it."""
  from ctrl_jax.planning import compile as compile_lib

  try:
    program = compile_update(config, topology)
  except compile_lib.DoesNotFit as e:
    return {"memory": _too_much(e, topology)}
  return estimate(config, topology, program)


def compile_update(config, topology) -> Any:
  """Compiles the update that training a configuration would run.

  Of several phases it is the last one's, in which the most trains.

  Args:
    config: from `resolve`.
    topology: from `planning.topologies.find`.

  Returns:
    A `planning.compile.Program`.

  Raises:
    planning.compile.DoesNotFit: it needs more memory than there is.
    errors.UserError: the configuration does not fit its devices' number.
  """
  from ctrl_jax.data import batches
  from ctrl_jax.planning import compile as compile_lib
  from ctrl_jax.training import sharding
  from ctrl_jax.training import step as step_lib

  c = config.train
  mesh = _mesh(config, topology)
  shares = mesh.shape["data"] * mesh.shape["fsdp"]
  if c.batch_size % (c.accumulate * shares):
    raise errors.UserError(
        f"train.batch_size={c.batch_size} is not a multiple of train.accumulate"
        f"={c.accumulate} times {shares} devices of the data and fsdp axes."
    )
  return compile_lib.train_step(
      step_lib.from_config(config, _task(config)),
      batches.shapes(config),
      mesh,
      sharding.ShardingRules(),
  )


def estimate(config, topology, program) -> dict[str, Any]:
  """What a compiled update of a configuration takes: a plan's `training`."""
  from ctrl_jax.planning import bounds, report

  length = config.data.sequence_length
  tokens = config.train.batch_size * length
  return report.training(
      program,
      bounds.bounds(program.operations, topology, program.devices),
      topology.chip,
      tokens=tokens,
      model_flops=tokens * _task(config).flops_per_token(length),
      num_steps=config.train.steps,
  )


def _task(config):
  from ctrl_jax.tasks import make as tasks

  return tasks.make(config, config.tokenizer.vocab_size)


def _num_parameters(config) -> tuple[int, int]:
  """How many train in the last phase, and how many there are; no padding."""
  from ctrl_jax.training import trainable

  plain = config.copy_and_resolve_references()
  plain.model.vocab_multiple = 1
  return trainable.sizes(_task(plain), -1)


def _decoding(model, topology, batch) -> dict[str, Any]:
  from ctrl_jax.planning import bounds, report
  from ctrl_jax.planning import compile as compile_lib

  try:
    program = compile_lib.decode_block(
        model, batch, _DECODE_STEPS, topology.devices[0]
    )
  except compile_lib.DoesNotFit as e:
    return {"batch": batch, "memory": _too_much(e, topology)}
  return report.decoding(
      program,
      bounds.bounds(program.operations, topology, program.devices),
      topology.chip,
      batch,
      _DECODE_STEPS,
  )


def _too_much(e, topology) -> dict[str, Any]:
  return {"peak": e.bytes, "available": topology.chip.memory, "fits": False}


def _batch_sizes(values: list[str]) -> tuple[int, ...]:
  sizes = [v for v in values if v]
  if not all(v.isdecimal() and 0 < int(v) < 2**20 for v in sizes):
    raise errors.UserError(
        f"--decode={','.join(values)}: batch sizes are whole numbers from 1 on,"
        " separated by commas."
    )
  return tuple(map(int, sizes))


def main() -> None:
  """Runs the command."""
  if _CONFIG.value is None or not _TOPOLOGY.value:
    raise errors.UserError(
        "Which experiment, and for what slice? Give"
        " --config=configs/ctrl_1b.py --topology=v3:8x16"
    )
  decode = _batch_sizes(_DECODE.value)
  from ctrl_jax.planning import topologies

  topologies.prepare_environment()
  from ctrl_jax.planning import report

  result = plan(
      _CONFIG.value, _TOPOLOGY.value, name=FLAGS["config"].config_filename,
      decode=decode, search=_SEARCH.value,
  )
  print(json.dumps(result, indent=1) if _JSON.value else report.text(result))
  if result["training"]["memory"]["fits"] is False:
    sys.stdout.flush()
    sys.exit(1)


if __name__ == "__main__":
  command.run(main, FLAGS, __doc__)
