"""Compiles what docs/plan.md and README say of slices of TPUs, once more.

  pip install -e ".[tpu]"
  python benchmarks/plans.py --output=docs/plan            all, 25 minutes
  python benchmarks/plans.py --output=docs/plan v5e_4x4_256_full ...

Each takes one to five minutes of a core; a plan goes into OUTPUT/NAME.json. No
TPU is needed.
"""

import argparse
import pathlib
import subprocess
import sys

_CTRL = ("configs/ctrl_1b.py", "v3:8x16")
_CTRL_512 = ("configs/ctrl_1b_512.py", "v3:8x16")
_16GB = ("configs/ctrl_1b_16gb.py", "v5e:1x1")
_DECODE = ("--decode=1,8,32,128",)
# Name -> configuration, slice, other flags.
PLANS = {
    "v3_8x16_256_dots": (*_CTRL, *_DECODE),
    "v3_8x16_256_full": (*_CTRL, "--config.model.remat=full"),
    "v3_8x16_256_none": (*_CTRL, "--config.model.remat=none"),
    "v3_8x16_512_dots": _CTRL_512,
    "v3_8x16_512_full": (*_CTRL_512, "--config.model.remat=full"),
    "v5e_4x4_256_full": (
        "configs/ctrl_1b.py", "v5e:4x4", "--config.model.remat=full",
    ),
    "v6e_4x4_256_full": (
        "configs/ctrl_1b.py", "v6e:4x4", "--config.model.remat=full", *_DECODE,
    ),
    "v5e_2x4_256_dots_batch_64": (
        "configs/ctrl_1b.py", "v5e:2x4", "--config.train.batch_size=64",
        *_DECODE,
    ),
    "v5e_1x1_256_16gb": _16GB,
    "v5e_1x1_512_16gb": (
        *_16GB, "--config.data.sequence_length=512",
        "--config.model.max_length=512",
    ),
    "v5e_1x1_256_auxiliary_16gb": (
        "configs/ctrl_1b_auxiliary_16gb.py", "v5e:1x1",
    ),
    "v5e_2x4_1024_cvae": ("configs/cvae_gpt2.py", "v5e:2x4"),
}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PLANS))
  parser.add_argument("--output", required=True, type=pathlib.Path)
  arguments = parser.parse_args()
  for name in arguments.names:
    if name not in PLANS:
      parser.error(f"no plan {name!r}; known: {', '.join(PLANS)}")
  arguments.output.mkdir(parents=True, exist_ok=True)
  for name in arguments.names or PLANS:
    config, topology, *flags = PLANS[name]
    if not any(flag.startswith("--decode") for flag in flags):
      flags.append("--decode=")
    done = subprocess.run(
        [sys.executable, "-m", "ctrl_jax.plan", f"--config={config}",
         f"--topology={topology}", "--search=false", "--json", *flags],
        stdout=subprocess.PIPE, text=True,
    )
    if done.returncode not in (0, 1):  # 1: it does not fit.
      sys.exit(done.returncode)
    (arguments.output / f"{name}.json").write_text(done.stdout)
    print(name, flush=True)


if __name__ == "__main__":
  main()
