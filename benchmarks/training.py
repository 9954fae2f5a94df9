"""Training, tokens/s: ours beside Hugging Face's CTRLLMHeadModel in PyTorch.

  python benchmarks/training.py --torch_python=OTHER_ENV/bin/python

The same configuration (V=8192, d=256, f=1024, 4 layers, 8 heads, T=256, batch
8, dropout 0.1), Adagrad, global norm clipped to 0.25, float32, random tokens.
The two take turns, a few steps each; the ratio is that of neighbouring rounds,
so that a busy machine harms both; exit code 1 below the target. Peak memory is
the most that each process held (imports and compilation included). Ours runs
with the settings of the allocator that the train command uses.
"""

import json
import os
import pathlib
import resource
import statistics
import sys
import time

import side_by_side

BATCH, LENGTH, STEPS = 8, 256, 4
TARGET = 1.0
MEMORY = -1  # The number that asks a worker for its peak memory.


def peak_memory_mb() -> float:
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ours():
  """Returns (seconds of n steps, compiled memory in MB, versions)."""
  side_by_side.import_ours()
  import jax
  import numpy as np

  from ctrl_jax.models.config import TransformerConfig
  from ctrl_jax.tasks.language_model import LanguageModelTask
  from ctrl_jax.training import optimizer, step

  config = TransformerConfig(**side_by_side.CONFIG, dropout=0.1)
  task = LanguageModelTask(config)
  rule = optimizer.make(optimizer.OptimizerConfig())
  train_step = step.TrainStep(task, rule, clip_norm=0.25)
  state = jax.jit(train_step.init)()
  rng = np.random.default_rng(0)
  shape = (BATCH, LENGTH + 1)
  batch = jax.device_put({
      "tokens": rng.integers(0, config.vocab_size, shape).astype(np.int32),
      "weights": np.ones(shape, np.float32),
  })
  update = (
      jax.jit(train_step, donate_argnums=0).lower(state, batch).compile()
  )
  memory = update.memory_analysis()
  step_mb = (
      memory.argument_size_in_bytes + memory.temp_size_in_bytes
  ) / 2**20

  def seconds(steps: int) -> float:
    nonlocal state
    metrics = {}
    start = time.perf_counter()
    for _ in range(steps):
      before = metrics
      state, metrics = update(state, batch)
      jax.block_until_ready(before)  # As the train command does.
    jax.block_until_ready((state, metrics))
    return time.perf_counter() - start

  return seconds, step_mb, f"jax {jax.__version__}"


def torch_worker() -> None:
  import torch

  model, versions = side_by_side.their_model()
  model.train()
  optimizer = torch.optim.Adagrad(
      model.parameters(), lr=0.01, initial_accumulator_value=0.1
  )
  size = (BATCH, LENGTH + 1)
  ids = torch.randint(0, side_by_side.CONFIG["vocab_size"], size)

  def seconds(steps: int) -> float:
    if steps == MEMORY:
      return peak_memory_mb()
    start = time.perf_counter()
    for _ in range(steps):
      logits = model(ids[:, :-1]).logits
      loss = torch.nn.functional.cross_entropy(
          logits.flatten(0, 1), ids[:, 1:].flatten()
      )
      loss.backward()
      torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
      optimizer.step()
      optimizer.zero_grad()
    return time.perf_counter() - start

  side_by_side.serve(seconds, versions)


def main() -> None:
  arguments = side_by_side.arguments(__doc__, rounds=12)
  if arguments.torch_worker:
    return torch_worker()

  their_seconds, their_versions = side_by_side.ask(
      __file__, arguments.torch_python
  )
  our_seconds, step_mb, our_versions = ours()
  for seconds in (our_seconds, their_seconds) * 2:
    seconds(2)
  rounds = [
      (our_seconds(STEPS), their_seconds(STEPS))
      for _ in range(arguments.rounds)
  ]
  tokens = STEPS * BATCH * LENGTH
  report = dict(
      ours=our_versions, theirs=their_versions,
      config=side_by_side.CONFIG, batch=BATCH, rounds=arguments.rounds,
      cores=len(os.sched_getaffinity(0)),
      our_tokens_per_s=statistics.median(tokens / a for a, _ in rounds),
      their_tokens_per_s=statistics.median(tokens / b for _, b in rounds),
      ratio=statistics.median(b / a for a, b in rounds),
      target=TARGET,
      our_step_mb=step_mb,
      our_peak_mb=peak_memory_mb(),
      their_peak_mb=their_seconds(MEMORY),
  )
  print(
      f"{our_versions} beside {their_versions}, {arguments.rounds} rounds of"
      f" {STEPS} steps:\n"
      f"ours {report['our_tokens_per_s']:.0f} tokens/s, theirs"
      f" {report['their_tokens_per_s']:.0f}, ratio {report['ratio']:.2f} (to"
      f" reach: {TARGET})\n"
      f"memory: a compiled step {step_mb:.0f} MB; peak of the process"
      f" {report['our_peak_mb']:.0f} MB, theirs"
      f" {report['their_peak_mb']:.0f} MB"
  )
  if arguments.output:
    pathlib.Path(arguments.output).write_text(
        json.dumps(report, indent=1) + "\n"
    )
  sys.exit(int(report["ratio"] < TARGET))


if __name__ == "__main__":
  if "--torch_worker" not in sys.argv:
    side_by_side.import_ours()
    from ctrl_jax import command

    command.tune_allocator()
  main()
