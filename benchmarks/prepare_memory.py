"""Shows that `prepare` needs the same memory for 0.2 GB and for 1 GB of text.

  python benchmarks/prepare_memory.py

Writes random text into a temporary folder, prepares it in a process of its own
with two workers, and prints the peak resident memory of that process and its
children together (pages they share count more than once), as JSON. Linux only.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

CONFIG = """
from ctrl_jax import config

def get_config():
  c = config.default()
  c.data.folder = {folder!r}
  c.data.sources = (config.source("text", "Text", path={text!r}),)
  c.data.workers = {workers}
  c.data.sequence_length = 512
  c.tokenizer.vocab_size = 4096
  c.tokenizer.train_chars = 5_000_000
  return c
"""


def write_text(path: pathlib.Path, size: int) -> None:
  """Writes at least `size` bytes of random words in paragraphs."""
  rng = np.random.default_rng(0)
  letters = np.array(list("etaoinshrdlu"))
  lengths = rng.integers(2, 9, 20_000)
  words = np.array(["".join(rng.choice(letters, n)) for n in lengths])
  written = 0
  with open(path, "w") as f:
    while written < size:
      # Zipf, as real words are.
      block = words[np.minimum(rng.zipf(1.3, 50_000), words.size) - 1]
      text = "".join(
          " ".join(part) + ".\n\n" for part in np.split(block, 500)
      )
      written += f.write(text)


def resident_bytes(pid: int) -> int:
  """Returns the resident memory of a process and all its descendants."""
  try:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
    children = [c for t in tasks for c in (t / "children").read_text().split()]
  except OSError:  # It has just ended.
    return 0
  own = [line for line in status.splitlines() if line.startswith("VmRSS:")]
  total = int(own[0].split()[1]) * 1024 if own else 0
  return total + sum(resident_bytes(int(child)) for child in children)


def measure(size: int, workers: int) -> dict:
  """Prepares `size` bytes of text; returns seconds and peak memory."""
  with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    write_text(folder / "text.txt", size)
    config = CONFIG.format(
        folder=str(folder / "set"),
        text=str(folder / "text.txt"),
        workers=workers,
    )
    (folder / "config.py").write_text(config)
    start = time.monotonic()
    process = subprocess.Popen(
        [
            sys.executable, "-m", "ctrl_jax.prepare",
            f"--config={folder / 'config.py'}",
        ],
        stdout=subprocess.DEVNULL,
    )
    peak = 0
    while process.poll() is None:
      peak = max(peak, resident_bytes(process.pid))
      time.sleep(0.1)
    seconds = time.monotonic() - start
    if process.returncode:
      raise SystemExit(process.returncode)
    manifest = json.loads((folder / "set" / "manifest.json").read_text())
  return {
      "input_bytes": size,
      "peak_bytes": peak,
      "seconds": round(seconds, 1),
      "tokens": sum(
          c["tokens"] for c in manifest["sources"][0]["splits"].values()
      ),
  }


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument(
      "--gigabytes", type=float, nargs="+", default=[0.2, 1.0]
  )
  parser.add_argument("--workers", type=int, default=2)
  arguments = parser.parse_args()
  runs = [
      measure(int(g * 1e9), arguments.workers) for g in arguments.gigabytes
  ]
  peaks = [run["peak_bytes"] for run in runs]
  result = {"runs": runs, "ratio": round(max(peaks) / min(peaks), 3)}
  print(json.dumps(result, indent=1))


if __name__ == "__main__":
  main()
