import json
import os
import signal
import subprocess
import sys
import time

import jax
import pytest
from loop_configs import changed

from ctrl_jax import errors, train
from ctrl_jax.training import checkpoint, checksum


def sums(workdir):
  return checksum.tree_checksums(checkpoint.load_params(workdir))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_config):
  """A run from start to end: (workdir, its result)."""
  workdir = tmp_path_factory.mktemp("finished") / "run"
  return workdir, train.train(tiny_config, str(workdir))


def test_a_run_leaves_what_it_should(finished):
  workdir, result = finished
  assert result["step"] == 8
  assert set(result["perplexity_by_code"]) == {"Fruit", "Tools"}
  text = (workdir / "metrics.jsonl").read_text()
  lines = [json.loads(line) for line in text.splitlines()]
  losses = {x["step"]: x["train/loss"] for x in lines if "train/loss" in x}
  assert sorted(losses) == list(range(1, 9))
  assert losses[8] < losses[1]
  goodputs = [x["train/goodput"] for x in lines if "train/goodput" in x]
  assert len(goodputs) == 8 and all(0 < x < 1 for x in goodputs)
  assert 0 < result["goodput"] < 1
  assert any("validation/perplexity_by_code/Fruit" in x for x in lines)
  assert "[Tools] " in (workdir / "samples.txt").read_text()
  assert any((workdir / "tensorboard").iterdir())
  # Not "auto": another backend goes on with the same generator.
  stored = json.loads((workdir / "config.json").read_text())
  assert stored["train"]["prng"] == "threefry2x32"


def test_stopping_and_resuming_is_bit_identical(
    finished, tmp_path, tiny_config
):
  """With dropout on; in another number of pieces than checkpoints."""
  workdir, result = finished
  goodput = tmp_path / "r" / "goodput.json"
  first_starts, productive = set(), []
  for steps in (3, 4, 8):
    again = train.train(changed(tiny_config, steps=steps), str(tmp_path / "r"))
    first_starts.add(goodput.read_text())
    meta = tmp_path / "r" / "checkpoints" / str(steps) / "meta" / "metadata"
    productive.append(json.loads(meta.read_text())["productive"])
  assert sums(tmp_path / "r") == sums(workdir)
  assert again["perplexity"] == result["perplexity"]
  # Goodput counts from the first start on, and goes on counting.
  assert len(first_starts) == 1
  assert 0 < productive[0] < productive[1] < productive[2]


def test_split_weights_resume_to_the_bit(tmp_path, tiny_config):
  c = changed(tiny_config, weights="split", sample_tokens=0)
  with c.unlocked():
    c.optimizer.name = "factored_adagrad"

  def stored(name, *stops):
    for steps in stops:
      train.train(changed(c, steps=steps), str(tmp_path / name))
    folder = tmp_path / name / "checkpoints" / str(steps) / "meta"
    return json.loads((folder / "metadata").read_text())["checksums"]

  sums = stored("whole", 4)
  assert stored("pieces", 1, 4) == sums
  assert "['low_bits']['layers']['up']['kernel']" in sums
  params = checkpoint.load_params(tmp_path / "whole")
  kernel = params["layers"]["up"]["kernel"]
  assert (kernel != kernel.astype("bfloat16")).mean() > 0.9  # All 32 bits.
  with pytest.raises(errors.UserError, match="weights was 'split', is 'float"):
    train.train(changed(c, weights="float32"), str(tmp_path / "whole"))


def test_a_profile_of_some_steps(tmp_path, tiny_config):
  c = changed(tiny_config, steps=4, eval_every=10, checkpoint_every=10)
  train.train(c, str(tmp_path / "r"), profile="1:3")
  (file,) = (tmp_path / "r" / "profile").rglob("*.xplane.pb")
  data = jax.profiler.ProfileData.from_file(str(file))
  steps = {
      dict(event.stats)["step_num"]
      for plane in data.planes for line in plane.lines for event in line.events
      if event.name == "train"
  }
  assert steps == {1, 2}
  with pytest.raises(errors.UserError, match="--profile=3:5: .*steps=4"):
    train.train(c, str(tmp_path / "other"), profile="3:5")
  assert not (tmp_path / "other").exists()


_TRAIN = """
import json, sys
import ml_collections
from absl import flags
from ctrl_jax import command, train
config = ml_collections.ConfigDict(json.loads(sys.argv[1]))
command.run(
    lambda: train.train(config, sys.argv[2]), flags.FlagValues(), "", ["train"]
)
"""


def start(config, workdir):
  return subprocess.Popen(
      [sys.executable, "-c", _TRAIN, config.to_json(), str(workdir)],
      stderr=subprocess.DEVNULL,
  )


def wait_for(path, process, seconds=120):
  end = time.monotonic() + seconds
  while not path.exists():
    assert process.poll() is None and time.monotonic() < end
    time.sleep(0.005)


def test_killed_and_resumed_is_bit_identical(finished, tmp_path, tiny_config):
  workdir, _ = finished
  long = changed(tiny_config, steps=200)
  process = start(long, tmp_path / "r")
  wait_for(tmp_path / "r" / "checkpoints" / "2", process)
  process.send_signal(signal.SIGKILL)
  assert process.wait() == -signal.SIGKILL
  newest = max(
      int(p.name) for p in (tmp_path / "r" / "checkpoints").iterdir()
      if p.name.isdigit()
  )
  assert newest < 200
  steps = newest + 5
  train.train(changed(tiny_config, steps=steps), str(tmp_path / "r"))
  train.train(changed(tiny_config, steps=steps), str(tmp_path / "whole"))
  assert sums(tmp_path / "r") == sums(tmp_path / "whole")


def test_sigterm_saves_first(tmp_path, tiny_config):
  # No checkpoint of its own accord.
  long = changed(tiny_config, steps=100_000, checkpoint_every=100_000)
  process = start(long, tmp_path / "r")
  wait_for(tmp_path / "r" / "samples.txt", process)
  process.send_signal(signal.SIGTERM)
  assert process.wait(timeout=60) == 0
  assert checkpoint.load_params(tmp_path / "r")


@pytest.mark.parametrize(
    "fields, says",
    [
        (dict(batch_size=6, accumulate=4), "not a multiple"),
        (dict(steps=0), "train.steps=0 must be at least 1"),
        (dict(log_every=0), "train.log_every=0"),
        (dict(seed=-1), "train.seed=-1"),
        (dict(prng="foo"), "'threefry2x32'"),
        (dict(max_minutes=float("nan")), "train.max_minutes=nan"),
    ],
)
def test_bad_values(tmp_path, tiny_config, fields, says):
  with pytest.raises(errors.UserError, match=says):
    train.train(changed(tiny_config, **fields), str(tmp_path / "r"))
  assert not os.path.exists(tmp_path / "r")


@pytest.mark.parametrize("fields, says", [
    (dict(learning_rate=-1.0), "above 0"),
    (dict(warmup_steps=1, decay_steps=2), "the learning rate is 0 from there"),
])
def test_bad_optimizer_leaves_no_workdir(tmp_path, tiny_config, fields, says):
  c = tiny_config.copy_and_resolve_references()
  with c.unlocked():
    c.optimizer.update(fields)
  with pytest.raises(errors.UserError, match=says):
    train.train(c, str(tmp_path / "r"))
  assert not os.path.exists(tmp_path / "r")


def test_workdir_relative_to_the_current_folder(
    finished, tmp_path, tiny_config, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  train.train(changed(tiny_config, steps=2), "some/run")
  assert sums("some/run")
  train.train(tiny_config, "some/run")
  assert sums("some/run") == sums(finished[0])


def test_missing_data_says_which_command_makes_it(tmp_path, tiny_config):
  c = tiny_config.copy_and_resolve_references()
  with c.unlocked():
    c.data.folder = str(tmp_path / "none")
  with pytest.raises(errors.UserError, match="ctrl_jax.prepare --config=x.py"):
    train.train(c, str(tmp_path / "r"), "ctrl_jax.prepare --config=x.py")


def test_model_shorter_than_the_data(tmp_path, tiny_config):
  c = tiny_config.copy_and_resolve_references()
  with c.unlocked():
    c.model.max_length = 8
  with pytest.raises(errors.UserError, match="model.max_length=8"):
    train.train(c, str(tmp_path / "r"))
