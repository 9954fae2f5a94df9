"""Compiles training and decoding steps ahead of time, from shapes alone."""

import dataclasses
import re
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, SingleDeviceSharding

from ctrl_jax.decoding import steps
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.planning import costs, hlo
from ctrl_jax.training import sharding
from ctrl_jax.training import step as step_lib

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


class DoesNotFit(Exception):
  """The compiler found no way to run the program in the device's memory.

  Attributes:
    bytes: what it would have needed, by its message; 0 when it does not say.
  """

  def __init__(self, bytes: int):
    super().__init__(f"needs {bytes} bytes")
    self.bytes = bytes


@dataclasses.dataclass(frozen=True)
class Memory:
  """Bytes of one device.

  Attributes:
    arguments: state and batch.
    temporaries: the most that is live besides them.
    results: what takes no argument's memory over.
    program: the code.
    donated: of the arguments, how much the results take over.
  """

  arguments: int
  temporaries: int
  results: int
  program: int
  donated: int

  @property
  def peak(self) -> int:
    """All together."""
    return self.arguments + self.temporaries + self.results + self.program


@dataclasses.dataclass(frozen=True)
class Program:
  """A compiled program, as far as it is looked at.

  Attributes:
    module: its instructions.
    operations: what one device does in one run.
    memory: what one device holds.
    devices: the devices, in the order of the program's partitions.
  """

  module: hlo.Module
  operations: list[costs.Operation]
  memory: Memory
  devices: tuple[Any, ...]


def train_step(
    step: step_lib.TrainStep,
    batch: dict[str, jax.ShapeDtypeStruct],
    mesh: Mesh,
    rules: sharding.ShardingRules,
) -> Program:
  """Compiles the update that `training.loop.train` runs, of the last phase.

  Args:
    step: of any task and optimizer.
    batch: shapes and dtypes of the task's global batch, [B, ...] each.
    mesh: of the devices to compile for.
    rules: the run's.

  Raises:
    DoesNotFit: it needs more memory than there is.
    errors.UserError: a dimension that the mesh does not divide.
  """
  with sharding.use(mesh, rules):
    shardings = sharding.shardings(
        mesh, rules, jax.eval_shape(step.init_boxed)
    )
    state = jax.tree.map(
        lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
        jax.eval_shape(step.init), shardings,
    )
    cut = sharding.batch_sharding(mesh, rules)
    batch = {
        k: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=cut)
        for k, x in batch.items()
    }
    lowered = jax.jit(
        step, donate_argnums=0, static_argnums=2,
        out_shardings=(shardings, None),
    ).lower(state, batch, len(step.task.phases) - 1)
    return _compile(lowered, tuple(mesh.devices.flat))


def decode_block(
    config: TransformerConfig, batch: int, num_steps: int, device: Any
) -> Program:
  """Compiles greedy steps of decoding, without rules, on one device.

  A step makes the logits of the next token, chooses it, and reads it into the
  cache of a full window. Several run in a loop, as in generation: before and
  behind it XLA brings the cache into the layout that it prefers.

  Args:
    config: the model's.
    batch: rows.
    num_steps: the loop's.
    device: to compile for.

  Raises:
    DoesNotFit: it needs more memory than there is.
  """

  def shapes(params, ids):
    params = steps.prepare(config, params)
    padding = jnp.zeros(batch, jnp.int32)
    session = steps.prefill(config, params, ids, padding, config.max_length)
    return params, session

  def block(params, session):
    def step(session, _):
      logits = steps.next_logits(config, params, session)
      token = jnp.argmax(logits, axis=-1).astype(jnp.int32)
      return steps.read(config, params, session, token), token

    return jax.lax.scan(step, session, length=num_steps)

  params = jax.eval_shape(
      lambda: transformer.init(config, jax.random.key(0))
  )
  ids = jax.ShapeDtypeStruct((batch, 1), jnp.int32)
  here = SingleDeviceSharding(device)
  arguments = jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here),
      jax.eval_shape(shapes, params, ids),
  )
  lowered = jax.jit(block, donate_argnums=1, out_shardings=here).lower(
      *arguments
  )
  return _compile(lowered, (device,))


def _compile(lowered, devices) -> Program:
  try:
    compiled = lowered.compile()
  except jax.errors.JaxRuntimeError as e:
    if "RESOURCE_EXHAUSTED" not in str(e):
      raise
    raise DoesNotFit(needed_bytes(str(e))) from e
  m = compiled.memory_analysis()
  module = hlo.parse(compiled.as_text())
  return Program(
      module,
      costs.operations(module, len(devices)),
      Memory(
          arguments=m.argument_size_in_bytes,
          temporaries=m.temp_size_in_bytes,
          results=m.output_size_in_bytes - m.alias_size_in_bytes,
          program=m.generated_code_size_in_bytes,
          donated=m.alias_size_in_bytes,
      ),
      devices,
  )


def needed_bytes(message: str) -> int:
  """What a program needs, by the compiler's refusal; 0 when it does not say.

  `... Used 33.21G of 15.48G hbm ...` is all of it, `HLO temporaries (18.29G)
  exceeds ...` what already is too much.
  """
  match = re.search(
      r"Used ([\d.]+)([KMG]?) of|\(([\d.]+)([KMG]?)\) exceeds", message
  )
  if match is None:
    return 0
  number, unit = (g for g in match.groups() if g is not None)
  return round(float(number) * _UNITS[unit])
