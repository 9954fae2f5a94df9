"""Two processes of four devices train as one of eight, and leave together."""

import json
import shutil
import signal
import time

import host_runs
import pytest

from ctrl_jax.training import checkpoint, checksum

_SCENARIOS = """
import runpy
runpy.run_module("process_scenarios", {}, "__main__")
"""
# What is preempted after step 4 or later, and the step that it ends at; waiting
# for data it is one of those that were read ahead.
_PREEMPTED = {
    "in_training": 7, "in_compilation": 4, "in_an_evaluation": 5,
    "waiting_for_data": None, "while_sampling": 5,
}


def run(count, folder, *names, devices=4):
  """Returns (exit code, {scenario: what it said}, stderr) of each process."""
  with host_runs.started(
      count, _SCENARIOS, folder, *names, devices=devices
  ) as processes:
    results = host_runs.ended(processes)
  found = []
  for index, (code, err) in enumerate(results):
    file = folder / f"said-{index}"
    assert file.exists(), err
    lines = file.read_text().splitlines()
    file.unlink()
    said = {x["scenario"]: x for x in map(json.loads, lines)}
    found.append((code, said, err))
  return found


def losses(workdir):
  """Maps step to loss, the last one written."""
  lines = [
      json.loads(line)
      for line in (workdir / "metrics.jsonl").read_text().splitlines()
  ]
  return {x["step"]: x["train/loss"] for x in lines if "train/loss" in x}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_config):
  folder = tmp_path_factory.mktemp("processes")
  c = tiny_config.copy_and_resolve_references()
  with c.unlocked():
    c.mesh.update(dict(data=2, fsdp=4))
    c.model.update(dict(num_layers=1, vocab_multiple=8))
    c.train.update(dict(
        eval_every=4, checkpoint_every=2, sample_tokens=0,
        sample_prompts=("pear",),
    ))
  (folder / "config.json").write_text(c.to_json())
  return folder


@pytest.fixture(scope="module")
def one(folder):
  """Six steps by one process of eight devices, then in the folder `one`."""
  ((code, said, err),) = run(1, folder, "whole:6", devices=8)
  assert code == 0, err
  (folder / "whole").rename(folder / "one")
  return said["whole:6"]


@pytest.fixture(scope="module")
def two(folder, one):
  """By two processes: four steps of their own; the last two of `one`; more."""
  shutil.copytree(folder / "one", folder / "resumed")
  results = run(
      2, folder, "whole:4", "resumed:6", "crossed", "begun",
      *_PREEMPTED, "another_config",
  )
  assert [code for code, _, _ in results] == [2, 2], results
  return results


def hashes(said, name):
  """Of each step: row -> hash, of all processes."""
  steps = zip(*(x[name]["hashes"] for _, x, _ in said), strict=True)
  return [{k: v for rows in step for k, v in rows.items()} for step in steps]


def test_losses_are_those_of_one_process(folder, one, two):
  expected = losses(folder / "one")
  assert sorted(expected) == [1, 2, 3, 4, 5, 6]
  for name, steps in (("whole", [1, 2, 3, 4]), ("crossed", [1, 2]),
                      ("resumed", [5, 6])):
    found = losses(folder / name)
    for step in steps:
      assert found[step] == pytest.approx(expected[step], rel=1e-5), name
  for _, said, _ in two:
    assert said["resumed:6"]["perplexity"] == pytest.approx(
        one["perplexity"], rel=1e-5
    )


def test_begun_with_the_parameters_of_one_process(folder, one, two):
  assert two[1][1]["begun"]["saved"] == [0]
  begun, model = map(checkpoint.load_params, (folder / "begun", folder / "one"))
  assert checksum.tree_checksums(begun) == checksum.tree_checksums(model)


def test_batches_do_not_depend_on_the_processes(one, two):
  expected = one["hashes"]
  rows = [sorted(map(int, x["whole:4"]["hashes"][0])) for _, x, _ in two]
  assert rows == [[0, 1, 2, 3], [4, 5, 6, 7]]
  assert hashes(two, "whole:4") == expected[:4]
  assert hashes(two, "resumed:6") == expected[4:]
  # There both processes read all rows, and the same.
  assert hashes(two, "crossed") == expected[:2]
  both = [x["crossed"]["hashes"] for _, x, _ in two]
  assert both[0] == both[1] and len(both[0][0]) == 8


def test_files_are_process_0s(folder, two):
  workdir = folder / "whole"
  lines = (workdir / "metrics.jsonl").read_text().splitlines()
  assert len(lines) == 5  # Four steps and an evaluation, each once.
  assert len(list((workdir / "tensorboard").iterdir())) == 1
  samples = (workdir / "samples.txt").read_text()
  assert samples.count("==== step 4") == samples.count("[Tools] pear") == 1
  # What is no warning is told by process 0 alone.
  assert "training sequences" in two[0][2]
  assert "training sequences" not in two[1][2]


@pytest.mark.parametrize("name", _PREEMPTED)
def test_preempted_all_leave_at_one_step(folder, two, name):
  step = _PREEMPTED[name] or max(two[0][1][name]["saved"])
  assert 4 <= step < 10
  for _, said, _ in two:
    # One checkpoint, unless there was one of that step.
    assert said[name]["saved"] == sorted({2, 4, step})
    assert said[name]["said"].startswith(
        f"Stopped by SIGTERM, saved at step {step}: the same command"
    )
  checkpoint.load_params(folder / name)  # Whole: checksums are compared.
  assert not (folder / name / "samples.txt").exists()


def test_a_checkpoint_one_cannot_read_is_none_for_all(folder, two):
  for _, said, err in two:
    assert said["resumed:6"]["saved"] == [2, 4, 6]
    assert "Checkpoint 6 is unusable: a part of it is gone" in err
  assert (folder / "resumed" / "checkpoints" / "6.damaged").exists()


def test_an_error_of_one_ends_all_in_a_line(two):
  last = [err.splitlines()[-1] for _, _, err in two]
  assert "holds another run: train.seed was 0, is 1" in last[1]
  assert last[0] == last[1].replace("Error: ", "Error: Process 1: ")


def test_restored_by_one_process_on_any_number_of_devices(folder, one, two):
  expected = two[0][1]["whole:4"]["perplexity"]
  ((code, said, err),) = run(
      1, folder, "on:8", "on:4", "on:1", "whole:6", devices=8
  )
  assert code == 0, err
  for name in ("on:8", "on:4", "on:1"):
    assert said[name]["saved"] == [2, 4] and said[name]["hashes"] == []
    assert said[name]["perplexity"] == pytest.approx(expected, rel=1e-5)
  assert said["whole:6"]["hashes"] == one["hashes"][4:]
  found, whole = losses(folder / "whole"), losses(folder / "one")
  assert found == pytest.approx(whole, rel=1e-5)


@pytest.fixture(scope="module")
def command(folder):
  """The arguments of `host_runs.TRAIN` for a workdir."""
  (folder / "config.py").write_text(
      "import json, ml_collections\ndef get_config():\n  return"
      f" ml_collections.ConfigDict(json.load(open({str(folder)!r} +"
      " '/config.json')))\n"
  )
  return lambda name: (
      f"--config={folder}/config.py", f"--workdir={folder / name}",
      "--process_timeout=300",
  )


def test_sigterm_to_one_ends_the_command_on_both(
    folder, two, command, monkeypatch
):
  monkeypatch.setenv("CTRL_JAX_PREEMPTED_EXIT_CODE", "143")
  shutil.copytree(folder / "in_compilation", folder / "command")
  metrics = folder / "command" / "metrics.jsonl"
  before = metrics.read_text()
  with host_runs.started(
      2, host_runs.TRAIN, *command("command"), "--config.train.steps=1000000",
      "--config.train.checkpoint_every=1000000",
      "--config.train.eval_every=1000000",
  ) as processes:
    end = time.monotonic() + 600
    while metrics.read_text() == before:
      assert time.monotonic() < end and processes[0].poll() is None
      time.sleep(0.05)
    processes[1].send_signal(signal.SIGTERM)
    results = host_runs.ended(processes)
  *others, step = checkpoint.saved_steps(folder / "command")
  assert others == [2, 4] and step > 4
  for code, err in results:
    assert code == 143
    assert err.splitlines()[-1] == (
        f"Stopped by SIGTERM, saved at step {step}: the same command goes on"
        " from there."
    )
  checkpoint.load_params(folder / "command")


def test_a_missing_process_is_named_in_time(folder, command):
  begin = time.monotonic()
  with host_runs.started(
      2, host_runs.TRAIN, *command("alone"), "--process_timeout=2",
      indices=[0],
  ) as processes:
    ((code, err),) = host_runs.ended(processes)
  assert code == 1 and time.monotonic() - begin < 60
  assert err.startswith("Error: Process 1 of 2 did not come: ")
  assert err.count("\n") == 1 and not (folder / "alone").exists()
