"""Measures the peak memory of `python -m ctrl_jax.convert`.

  python benchmarks/convert_memory.py

Writes a random CTRL of some 400 MB as a workdir, one whose matrices are stored
in two halves (train.weights="split"), a Hugging Face folder and a TensorFlow
checkpoint with accumulators, converts each in a process of its own
to float32 and to bfloat16, and prints the peak resident memory less that of a
process which converts a model of a few kilobytes, over the size of the
safetensors written, as JSON. Exit code 1 where it reaches the target. Linux
only.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

TARGET = 1.2
KINDS = ("huggingface", "workdir", "split", "tensorflow")
DTYPES = ("float32", "bfloat16")
_NUM_HEADS = {"small": 2, "large": 12}


def make_config(size: str):
  """Returns the configuration of a CTRL: "large" is 413 MB in float32."""
  from ctrl_jax.models.config import TransformerConfig

  if size == "small":
    return TransformerConfig(
        vocab_size=50, d_model=16, d_ff=32, num_layers=2,
        num_heads=_NUM_HEADS[size], max_length=16,
    )
  return TransformerConfig(
      vocab_size=30_000, d_model=768, d_ff=3072, num_layers=11,
      num_heads=_NUM_HEADS[size], max_length=256,
  )


def make_params(config):
  """Returns random parameters, float32."""
  import jax
  import numpy as np

  from ctrl_jax.models import transformer

  rng = np.random.default_rng(0)
  shapes = jax.eval_shape(
      lambda key: transformer.init(config, key), jax.random.key(0)
  )
  return jax.tree.map(
      lambda x: rng.standard_normal(x.shape, np.float32), shapes
  )


def write_models(folder: pathlib.Path, size: str) -> None:
  """Writes `folder/KIND` for each of `KINDS`."""
  import dataclasses

  import jax

  sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))
  import tensorflow_fakes

  from ctrl_jax.interop import hugging_face
  from ctrl_jax.training import checkpoint_manager, weights

  config = make_config(size)
  params = make_params(config)
  (folder / "huggingface").mkdir(parents=True)
  hugging_face.write(folder / "huggingface", config, params)
  (folder / "tensorflow").mkdir()
  tensorflow_fakes.write_ctrl(
      folder / "tensorflow" / "model.ckpt-1", config, params
  )
  params = jax.device_put(params)
  high, low = weights.split(params)
  states = dict(
      workdir=dict(params=params), split=dict(params=high, low_bits=low)
  )
  fields = dataclasses.asdict(config)
  vocab_size = fields.pop("vocab_size")
  for name, state in states.items():
    workdir = folder / name
    workdir.mkdir()
    (workdir / "config.json").write_text(
        json.dumps(dict(vocab_size=vocab_size, model=fields, train={}))
    )
    checkpoints = checkpoint_manager.Checkpoints(workdir)
    checkpoints.save(1, state, 0.0)
    checkpoints.close()


def convert(model: pathlib.Path, to: pathlib.Path, *flags: str) -> dict:
  """Converts in another process; returns its peak, seconds and what it wrote.
  """
  start = time.monotonic()
  process = subprocess.Popen(
      [sys.executable, "-m", "ctrl_jax.convert", f"--model={model}",
       f"--to={to}", *flags],
      stdout=subprocess.DEVNULL, env={"JAX_PLATFORMS": "cpu", **os.environ},
  )
  # This process is small: its size at the fork is no part of the peak.
  _, status, usage = os.wait4(process.pid, 0)
  if status:
    raise SystemExit(f"The conversion of {model} failed.")
  return dict(
      peak_bytes=usage.ru_maxrss * 1024,
      seconds=round(time.monotonic() - start, 1),
      written_bytes=sum(f.stat().st_size for f in to.glob("*.safetensors")),
  )


def measure(folder: pathlib.Path, kinds=KINDS, dtypes=DTYPES) -> list[dict]:
  """Returns a row a kind of model and a dtype."""
  for size in ("small", "large"):
    # In a process of its own: this one shall stay small.
    subprocess.run(
        [sys.executable, __file__, f"--write={folder / size}",
         f"--size={size}"],
        check=True, env={"JAX_PLATFORMS": "cpu", **os.environ},
    )
  rows = []
  for kind in kinds:
    for dtype in dtypes:
      runs = {}
      for size in ("small", "large"):
        flags = [f"--dtype={dtype}"]
        if kind == "tensorflow":  # Its files do not say it.
          flags.append(f"--num-heads={_NUM_HEADS[size]}")
        runs[size] = convert(
            folder / size / kind, folder / f"{size}-{kind}-{dtype}", *flags
        )
      above = runs["large"]["peak_bytes"] - runs["small"]["peak_bytes"]
      rows.append(dict(
          model=kind, dtype=dtype, **runs["large"],
          floor_bytes=runs["small"]["peak_bytes"],
          ratio=round(above / runs["large"]["written_bytes"], 3),
      ))
  return rows


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--write", type=pathlib.Path, help=argparse.SUPPRESS)
  parser.add_argument("--size", default="large", help=argparse.SUPPRESS)
  arguments = parser.parse_args()
  if arguments.write:
    write_models(arguments.write, arguments.size)
    return
  with tempfile.TemporaryDirectory() as folder:
    rows = measure(pathlib.Path(folder))
  print(json.dumps(rows, indent=1))
  sys.exit(int(any(row["ratio"] >= TARGET for row in rows)))


if __name__ == "__main__":
  main()
