"""What `plan` estimates for the runs of others that it is calibrated by.

  python benchmarks/calibration.py levanter maxtext

Compiles each run's shapes for its slice of TPUs (pip install -e ".[tpu]"; no
TPU is needed) and prints, as JSON, the step's bound without overlap, how much
of it waits for attention's scores, the bound without these, and the MFU at both
and at the compiler's own estimate: what `ctrl_jax.planning.calibration` states.
Some minutes for the first, some 10 to 25 for the second.
"""

import argparse
import json
import pathlib

from ctrl_jax import plan
from ctrl_jax.planning import calibration, topologies

RUNS = {"levanter": calibration.LEVANTER, "maxtext": calibration.MAXTEXT}


def measure(name: str) -> dict:
  """Compiles one run's step; seconds and MFU (of 1)."""
  topology = topologies.find(RUNS[name].topology)
  config = plan.resolve(calibration.get_config(name), topology.platform)
  program = plan.compile_update(config, topology)
  found = plan.estimate(config, topology, program)
  seconds = found["no_overlap"]["seconds"]
  scores = calibration.scores_seconds(program.operations, topology.chip)
  mfu = found["no_overlap"]["mfu"]
  return dict(
      run=RUNS[name].name,
      topology=RUNS[name].topology,
      measured_mfu=RUNS[name].measured,
      temporaries=found["memory"]["temporaries"],
      bound_seconds=seconds,
      bound_mfu=mfu,
      scores_seconds=round(scores, 4),
      bound_seconds_without_scores=round(seconds - scores, 4),
      bound_mfu_without_scores=round(mfu * seconds / (seconds - scores), 4),
      compiler_mfu=found.get("compiler_estimate", {}).get("mfu"),
  )


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("runs", nargs="+", choices=RUNS)
  parser.add_argument("--output", default="", help="a JSON file, added to")
  arguments = parser.parse_args()
  topologies.prepare_environment()
  file = pathlib.Path(arguments.output or "/dev/null")
  report = json.loads(file.read_text()) if file.is_file() else {}
  for name in arguments.runs:
    report[name] = measure(name)
    print(json.dumps(report[name], indent=1), flush=True)
    if arguments.output:
      file.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
  main()
