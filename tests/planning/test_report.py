import json

import pytest

from ctrl_jax.planning import bounds as bounds_lib
from ctrl_jax.planning import calibration, chips, report
from ctrl_jax.planning import compile as compile_lib

CHIP = chips.Chip(peak=1e12, memory=2**30, bandwidth=1e9, link=1e8)
MEMORY = compile_lib.Memory(
    arguments=2**29, temporaries=2**28, results=0, program=0, donated=2**29
)
PROGRAM = compile_lib.Program(None, [], MEMORY, (None, None))
BOUNDS = bounds_lib.Bounds(
    flops=3 * 10**11, padded_flops=4 * 10**11, bytes=10**8,
    collectives=(bounds_lib.Collective("all-gather", 2, 5, 10**6, 0.1),),
    product_seconds=0.4, other_seconds=0.1, collective_seconds=0.1,
    overlap_seconds=0.4, compiler_seconds=0.8,
)


def training(chip=CHIP):
  return report.training(
      PROGRAM, BOUNDS, chip, tokens=1200, model_flops=4e11, num_steps=86_400
  )


def test_speeds_of_a_step():
  result = training()
  assert result["no_overlap"] == {
      "seconds": 0.6, "tokens_per_second": 2000, "mfu": 0.3333, "days": 0.6,
  }
  assert result["full_overlap"]["seconds"] == 0.4
  assert result["compiler_estimate"]["seconds"] == 0.8
  ratio = calibration.LEVANTER.ratio
  assert result["expected"]["mfu"] == pytest.approx(ratio / 3, rel=1e-3)
  ratio = calibration.LEVANTER.compiler_ratio
  assert result["expected_by_compiler"]["seconds"] == pytest.approx(
      0.8 / ratio, rel=1e-3
  )
  ratio = calibration.MAXTEXT.ratio
  assert result["expected_by_maxtext"]["mfu"] == pytest.approx(
      ratio / 3, rel=1e-3
  )
  assert result["model_flops"] == 2e11  # Of one of two devices.


def test_a_v3_was_measured_itself():
  assert "expected_by_maxtext" not in training(chips.CHIPS["v3"])


def test_memory_against_the_chips():
  m = report.memory(MEMORY, CHIP)
  assert (m["peak"], m["available"], m["fits"]) == (3 * 2**28, 2**30, True)
  small = chips.Chip(1e12, 2**29, 1e9, 1e8)
  assert report.memory(MEMORY, small)["fits"] is False
  assert report.memory(MEMORY, None)["fits"] is None


def test_without_a_chip_no_times():
  assert "no_overlap" not in training(None)
  assert "seconds" not in report.decoding(PROGRAM, BOUNDS, None, 4, 1)
  found = report.decoding(PROGRAM, BOUNDS, CHIP, 6, 2)
  assert (found["seconds"], found["tokens_per_second"]) == (0.3, 20)


def plan(training, **changes):
  return {
      "config": "configs/x.py", "task": "language_model",
      "topology": "v3:2x2", "devices": 2,
      "mesh": {"data": 1, "fsdp": 2}, "parameters": 12345, "trained": 12345,
      "batch_size": 8,
      "sequence_length": 16, "accumulate": 1, "remat": "none",
      "loss_chunk": 64, "training": training, "instead": None,
      "decoding": [],
  } | changes


def test_text():
  found = plan(
      training(), decoding=[report.decoding(PROGRAM, BOUNDS, CHIP, 6, 1)]
  )
  assert json.loads(json.dumps(found)) == found
  text = report.text(found)
  for part in ("12,345 parameters", "peak 0.75 GiB of 1.00 GiB: fits",
               "300.00 GFLOP", "all-gather among 2: 5 runs, 1.00 MB",
               "33.3%", "expected", "batch    6"):
    assert part in text, part
  assert max(map(len, text.splitlines())) <= 132


def test_text_says_what_is_frozen():
  text = report.text(plan(training(), trained=678))
  assert "12,345 parameters, of which 678 train." in text


def test_text_says_what_decodes_and_what_no_run_was_measured_for():
  decoding = [report.decoding(PROGRAM, BOUNDS, CHIP, 6, 1)]
  text = report.text(plan(training(), decoding=decoding))
  assert "Decoding on one device, greedy, at most (no measured run" in text
  assert "those runs say nothing of the bound with full overlap" in text
  text = report.text(plan(training(), decoding=decoding, task="cvae"))
  assert "Decoding with the model beneath alone on one device" in text


def test_text_of_what_does_not_fit():
  too_much = {
      "memory": {"peak": 3 * 2**30, "available": 2**30, "fits": False}
  }
  instead = {"overrides": {"model.remat": "full"}, "peak": 2**29}
  text = report.text(plan(
      too_much, instead=instead,
      decoding=[{"batch": 9, "memory": too_much["memory"]}],
  ))
  assert "needs 3.00 GiB at least, of 1.00 GiB a device" in text
  assert "0.50 GiB: --config.model.remat=full" in text
  assert "batch    9: does NOT fit (3.00 GiB at least)" in text
  assert "No setting" in report.text(plan(too_much, instead={}))
