"""Loss of training as configs/ctrl_1b_16gb.py does, beside Adagrad in float32.

  export CTRL_JAX_DATA=/path/to/data   # unset: documentation of the packages
  python benchmarks/low_memory_optimizer.py

Trains a small CTRL twice on the books in that folder, from the same weights, on
the same batches: once with everything in float32 and Adagrad; once with
products in bfloat16, weights split into two halves and factored sums. Prints
the validation losses and their ratio. The other settings are the project's
defaults, where Adagrad's sums soon exceed their initial value: with the
paper's, 0.1, they would hardly matter in so few steps. Some three minutes of
one core; exit code 1 above the target.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

TARGET = 1.02
LOW_MEMORY = {
    "model.dtype": "bfloat16", "model.remat": "full",
    "optimizer.name": "factored_adagrad", "train.weights": "split",
}
FLOAT32 = {
    "model.dtype": "float32", "optimizer.name": "adagrad",
    "train.weights": "float32",
}


def make_config(folder: pathlib.Path, steps: int):
  """A CTRL of 0.7 million parameters; the rule factors its matrices' sums."""
  from configs import demo
  from ctrl_jax import config

  c = demo.get_config()
  if "CTRL_JAX_DATA" in os.environ:
    c.data.sources = (
        config.source("text", "Books", path="$CTRL_JAX_DATA/books/*.txt.gz"),
    )
  c.data.folder = str(folder / "data")
  c.data.sequence_length = c.model.max_length = 64
  c.data.validation_fraction = 0.1
  c.tokenizer.vocab_size = 2048
  c.tokenizer.train_chars = 2_000_000
  c.model.num_layers = 2
  c.optimizer.warmup_steps = 100
  c.train.update(dict(
      steps=steps, batch_size=8, eval_every=steps, eval_sequences=1024,
      checkpoint_every=steps, sample_tokens=0, max_minutes=0.0,
  ))
  return c


def train(config, changes: dict[str, str], workdir: pathlib.Path) -> dict:
  """Trains; returns the validation loss and the state's size in bytes."""
  import jax

  from ctrl_jax import train as train_lib
  from ctrl_jax.tasks import make as tasks
  from ctrl_jax.training import step

  c = config.copy_and_resolve_references()
  c.update_from_flattened_dict(changes)
  result = train_lib.train(c, str(workdir))
  task = tasks.make(c, c.tokenizer.vocab_size)
  state = jax.eval_shape(step.from_config(c, task).init)
  return dict(
      loss=result["loss"],
      state_bytes=sum(
          x.size * x.dtype.itemsize for x in jax.tree.leaves(state)
      ),
  )


def main() -> None:
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--steps", type=int, default=1000)
  parser.add_argument("--output", default="", help="JSON file to write")
  arguments = parser.parse_args()
  sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
  import jax

  from ctrl_jax import prepare

  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    config = make_config(folder, arguments.steps)
    prepare.prepare(config)
    adagrad = train(config, FLOAT32, folder / "float32")
    ours = train(config, LOW_MEMORY, folder / "low_memory")
  report = dict(
      versions=f"jax {jax.__version__}", steps=arguments.steps,
      data="books" if "CTRL_JAX_DATA" in os.environ else "documentation",
      model=config.model.to_dict(), adagrad_float32=adagrad, low_memory=ours,
      ratio=ours["loss"] / adagrad["loss"], target=TARGET,
  )
  print(
      f"validation loss after {arguments.steps} steps: Adagrad in float32"
      f" {adagrad['loss']:.4f}, low memory {ours['loss']:.4f}, ratio"
      f" {report['ratio']:.4f} (to reach: at most {TARGET})\n"
      f"bytes of state: {adagrad['state_bytes']:,} and"
      f" {ours['state_bytes']:,}"
  )
  if arguments.output:
    pathlib.Path(arguments.output).write_text(
        json.dumps(report, indent=1) + "\n"
    )
  sys.exit(int(report["ratio"] > TARGET))


if __name__ == "__main__":
  main()
