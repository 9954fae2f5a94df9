"""Two programs that take turns on one machine: what the benchmarks share."""

import argparse
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

CONFIG = dict(
    vocab_size=8192, d_model=256, d_ff=1024, num_layers=4, num_heads=8,
    max_length=256,
)


def arguments(description: str, rounds: int) -> argparse.Namespace:
  """Parses the command line, the same for each benchmark."""
  parser = argparse.ArgumentParser(
      description=description,
      formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("--torch_python", default=sys.executable)
  parser.add_argument("--rounds", type=int, default=rounds)
  parser.add_argument("--output", default="", help="JSON file to write")
  parser.add_argument("--torch_worker", action="store_true",
                      help=argparse.SUPPRESS)
  return parser.parse_args()


def import_ours() -> None:
  """Makes `import ctrl_jax` work from a clone that is not installed."""
  sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))


def their_model():
  """Hugging Face's CTRL with random weights, and the versions."""
  import torch
  import transformers

  torch.manual_seed(0)
  c = CONFIG
  model = transformers.CTRLLMHeadModel(
      transformers.CTRLConfig(
          vocab_size=c["vocab_size"], n_positions=c["max_length"],
          n_embd=c["d_model"], dff=c["d_ff"], n_layer=c["num_layers"],
          n_head=c["num_heads"],
      )
  )
  versions = (torch.__version__, transformers.__version__)
  return model, "torch {}, transformers {}".format(*versions)


def serve(answer: Callable[[int], float], versions: str) -> None:
  """A worker: prints `versions`, then answers each number read with another."""
  print(versions, flush=True)
  for line in sys.stdin:
    print(answer(int(line)), flush=True)


def ask(script: str, python: str) -> tuple[Callable[[int], float], str]:
  """Starts `script --torch_worker` under another Python.

  Returns:
    A function that asks the worker, and the versions it printed.
  """
  worker = subprocess.Popen(
      [python, script, "--torch_worker"],
      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
      env={k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"},
  )
  versions = worker.stdout.readline().strip()
  if not versions:
    sys.exit(f"Error: {python} cannot import torch and transformers: name the"
             " Python that can with --torch_python=PATH.")

  def answer(number: int) -> float:
    worker.stdin.write(f"{number}\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())

  return answer, versions
