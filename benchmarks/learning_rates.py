"""Validation perplexity of the keyword task's methods by learning rate.

  python benchmarks/learning_rates.py --output=docs/keywords/rates.json

Trains every variant of configs/auxiliary_keyword.py with each rate for a few
steps, and writes each result as it comes; the same command goes on where it
stopped. Needs what that configuration names. The best rates are for the
configuration to take: one for all may favour what begins at random or at zero
over what begins with trained weights. Some 90 minutes of one core, by the time
of a step.
"""

import argparse
import json
import pathlib
import sys
import time

RATES = (3e-4, 1e-3, 3e-3)


def train(
    variant: str, rate: float, steps: int, workdir: str
) -> float | None:
  """Returns the validation perplexity after `steps`; None if it diverges."""
  from configs import auxiliary_keyword
  from ctrl_jax import errors, prepare
  from ctrl_jax import train as train_lib

  c = auxiliary_keyword.get_config(variant)
  c.optimizer.learning_rate = rate
  c.train.update(dict(
      steps=steps, eval_every=steps, eval_sequences=0, checkpoint_every=steps,
      keep_checkpoints=1, max_minutes=0.0, sample_tokens=0,
  ))
  prepare.prepare(c)
  try:
    return train_lib.train(c, f"{workdir}/{variant}-{rate:g}")["perplexity"]
  except errors.NotFinite:
    return None


def main() -> None:
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--output", required=True, help="JSON file.")
  parser.add_argument("--workdirs", default="runs/rates", help="Folder.")
  parser.add_argument("--steps", type=int, default=300)
  parser.add_argument(
      "--minutes", type=float, default=0.0,
      help="Begin nothing after so many; 0: no limit.",
  )
  args = parser.parse_args()
  sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
  from absl import flags

  from configs import auxiliary_keyword
  from ctrl_jax.evaluation import output

  if not flags.FLAGS.is_parsed():
    flags.FLAGS.mark_as_parsed()  # Read by data loading.
  end = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
  file = pathlib.Path(args.output)
  found = json.loads(file.read_text()) if file.exists() else {}
  for variant in auxiliary_keyword.AUXILIARIES + auxiliary_keyword.PREFIXED:
    for rate in RATES:
      of_variant = found.setdefault(variant, {})
      if f"{rate:g}" in of_variant or time.monotonic() > end:
        continue
      of_variant[f"{rate:g}"] = train(variant, rate, args.steps, args.workdirs)
      output.write_json(file, found)
      print(variant, rate, of_variant[f"{rate:g}"], flush=True)


if __name__ == "__main__":
  main()
