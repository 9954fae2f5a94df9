"""Tokenizing, loading included: ours beside PyPI's fastBPE (C++).

  python benchmarks/tokenizer.py --codes=FOLDER --text=FOLDER \\
      --fastbpe_python=OTHER_ENV/bin/python

FOLDER of --codes holds CTRL's `codes` and `vocab`; that of --text holds
`*.txt.gz`. Each round starts both programs anew, ours last; the ratio is the
median over rounds; exit code 1 above the target. fastBPE gives pieces, ours
ids. (It needs a C++ compiler to install, so it may live in another
environment.)
"""

import argparse
import gzip
import json
import pathlib
import statistics
import subprocess
import sys
import time

TARGET = 1.5


def texts(folder: str) -> list[str]:
  files = sorted(pathlib.Path(folder).glob("*.txt.gz"))
  if not files:
    sys.exit(f"Error: no *.txt.gz in {folder}: check --text.")
  return [gzip.decompress(f.read_bytes()).decode("utf-8") for f in files]


def theirs(codes: str, documents: list[str]) -> float:
  start = time.perf_counter()
  import fastBPE

  bpe = fastBPE.fastBPE(f"{codes}/codes", f"{codes}/vocab")
  for document in documents:
    bpe.apply(document.split("\n"))
  return time.perf_counter() - start


def ours(codes: str, documents: list[str]) -> float:
  sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
  start = time.perf_counter()
  from ctrl_jax import text

  tokenizer = text.load_tokenizer(codes)
  for document in documents:
    tokenizer.encode(document)
  return time.perf_counter() - start


def main() -> None:
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--codes", required=True)
  parser.add_argument("--text", required=True)
  parser.add_argument("--fastbpe_python", default=sys.executable)
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--output", default="", help="JSON file to write")
  parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
  arguments = parser.parse_args()
  if arguments.worker:
    work = {"ours": ours, "theirs": theirs}[arguments.worker]
    print(work(arguments.codes, texts(arguments.text)))
    return

  def seconds(python: str, worker: str) -> float:
    done = subprocess.run(
        [python, __file__, f"--worker={worker}", f"--codes={arguments.codes}",
         f"--text={arguments.text}"],
        capture_output=True, text=True, check=False,
    )
    if done.returncode:
      sys.exit(f"Error: {python} cannot run {worker}: {done.stderr[-300:]}")
    return float(done.stdout.splitlines()[-1])

  rounds = [
      (seconds(arguments.fastbpe_python, "theirs"),
       seconds(sys.executable, "ours"))
      for _ in range(arguments.rounds)
  ]
  megabytes = sum(len(t.encode()) for t in texts(arguments.text)) / 1e6
  report = dict(
      megabytes=megabytes, rounds=arguments.rounds,
      their_seconds=statistics.median(a for a, _ in rounds),
      our_seconds=statistics.median(b for _, b in rounds),
      ratio=statistics.median(b / a for a, b in rounds), target=TARGET,
  )
  print(f"{megabytes:.1f} MB: ours {report['our_seconds']:.1f} s, fastBPE"
        f" {report['their_seconds']:.1f} s, ratio {report['ratio']:.2f} (at"
        f" most {TARGET})")
  if arguments.output:
    pathlib.Path(arguments.output).write_text(
        json.dumps(report, indent=1) + "\n"
    )
  sys.exit(int(report["ratio"] > TARGET))


if __name__ == "__main__":
  main()
