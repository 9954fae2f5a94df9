"""Benchmarks with a target: the recorded figure, and what a missed one gives.
"""

import gzip
import json
import pathlib
import subprocess
import sys

import pytest

from benchmarks import low_memory_optimizer, tokenizer

ROOT = pathlib.Path(__file__).parents[1]


def test_the_recorded_speed_of_the_tokenizer():
  found = json.loads((ROOT / "docs" / "tokenizer_speed.json").read_text())
  assert found["target"] == tokenizer.TARGET == 1.5
  assert found["megabytes"] > 7 and found["rounds"] >= 5
  assert found["ratio"] <= found["target"]


def test_the_recorded_loss_of_low_memory_training():
  found = json.loads((ROOT / "docs" / "low_memory_optimizer.json").read_text())
  assert found["target"] == low_memory_optimizer.TARGET == 1.02
  assert found["steps"] == 1000 and found["data"] == "books"
  ratio = found["low_memory"]["loss"] / found["adagrad_float32"]["loss"]
  assert found["ratio"] == ratio <= found["target"]


@pytest.mark.skipif(sys.platform == "win32", reason="runs a shell script")
@pytest.mark.parametrize("their_seconds, code", [(1000, 0), (1e-5, 1)])
def test_the_tokenizers_exit_code(tmp_path, their_seconds, code):
  (tmp_path / "codes").write_text("l o</w> 5\n")
  (tmp_path / "vocab").write_text("lo 9\n")
  (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"lo lo\n"))
  their_python = tmp_path / "python"
  their_python.write_text(f"#!/bin/sh\necho {their_seconds}\n")
  their_python.chmod(0o755)
  done = subprocess.run(
      [sys.executable, ROOT / "benchmarks" / "tokenizer.py", "--rounds=1",
       f"--codes={tmp_path}", f"--text={tmp_path}",
       f"--fastbpe_python={their_python}", f"--output={tmp_path / 'out.json'}"],
      capture_output=True, text=True,
  )
  assert done.returncode == code, done.stderr
  ratio = json.loads((tmp_path / "out.json").read_text())["ratio"]
  assert (ratio > tokenizer.TARGET) == bool(code)
