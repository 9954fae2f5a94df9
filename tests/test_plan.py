import json
import os
import subprocess
import sys

import pytest

from ctrl_jax import config as config_lib
from ctrl_jax import errors, plan
from ctrl_jax.models import transformer
from ctrl_jax.planning import report
from ctrl_jax.tasks import make as tasks


def small():
  c = config_lib.default()
  c.model.update(dict(
      d_model=32, d_ff=64, num_layers=2, num_heads=2, max_length=16,
      vocab_multiple=8,
  ))
  c.data.sequence_length = 16
  c.tokenizer.vocab_size = 250
  c.train.batch_size = 16
  return c


def num_parameters(config):
  """Of the model itself, without padding."""
  task = tasks.make(config, config.tokenizer.vocab_size)
  return transformer.num_parameters(task.model)


def run(*argv):
  return subprocess.run(
      [sys.executable, "-m", "ctrl_jax.plan", *argv],
      capture_output=True, text=True, timeout=300,
      env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
  )


def test_eight_virtual_devices():
  done = run(
      "--config=configs/demo.py", "--topology=cpu:8", "--decode=2", "--json",
      "--config.mesh.data=2", "--config.mesh.fsdp=4",
      "--config.model.vocab_multiple=8",
  )
  assert done.returncode == 0, done.stderr
  found = json.loads(done.stdout)
  assert found["devices"] == 8
  assert found["mesh"] == {"data": 2, "fsdp": 4, "tensor": 1}
  train = found["training"]
  kinds = {(c["kind"], c["group"]) for c in train["collectives"]}
  assert ("all-gather", 4) in kinds  # Parameters, among the fsdp axis.
  assert ("all-reduce", 2) in kinds  # Gradients, over the data axis.
  # A quarter of the parameters and of Adagrad's sums.
  assert train["memory"]["donated"] == pytest.approx(
      2 * found["parameters"], rel=0.05
  )
  assert train["memory"]["fits"] is None
  assert found["decoding"][0]["batch"] == 2


def test_plan_of_one_device():
  found = plan.plan(small(), "cpu:1", name="small")
  assert (found["batch_size"], found["decoding"]) == (16, [])
  work = found["training"]
  # Masked halves of attention are computed too, in part.
  assert 1 <= work["flops"] / work["model_flops"] < 1.2


def test_a_gpus_plan_is_of_its_choices():
  found = {name: plan.plan(small(), f"{name}:1") for name in ("cpu", "gpu")}
  memory = {name: p["training"]["memory"] for name, p in found.items()}
  assert memory["gpu"]["arguments"] == memory["cpu"]["arguments"]
  # Its activations are bfloat16, its layers scanned.
  assert memory["gpu"]["temporaries"] != memory["cpu"]["temporaries"]
  gpu = plan.resolve(small(), "gpu").model
  assert (gpu.dtype, gpu.scan_layers) == ("bfloat16", True)
  assert "a CPU, which widens" in report.text(found["gpu"])
  assert "which widens" not in report.text(found["cpu"])


def test_plan_of_an_auxiliary():
  c = small()
  c.task.name = "auxiliary_tuning"
  c.data.attribute_length = c.auxiliary.attribute_length = 4
  c.auxiliary.update(dict(d_model=16, d_ff=32, num_layers=1, num_heads=2))
  c.train.frozen_weights = "bfloat16"
  found = plan.plan(c, "cpu:1")
  frozen = found["parameters"] - found["trained"]
  assert frozen == num_parameters(c)
  memory = found["training"]["memory"]
  # Frozen: nearly all are matrices. Trained: with Adagrad's sums.
  state = 2 * frozen + 8 * found["trained"]
  assert memory["arguments"] == pytest.approx(state, rel=0.1)


def test_plan_of_a_cvae_is_of_the_last_phase():
  c = small()
  c.task.name = "cvae"
  c.cvae.update(dict(num_layers=1, latent_size=8, freeze_steps=3))
  found = plan.plan(c, "cpu:1")
  assert found["trained"] == found["parameters"]  # All of it, then.
  assert found["parameters"] > num_parameters(c)
  work = found["training"]
  assert 0.8 < work["flops"] / work["model_flops"] < 1.5
  # Parameters of model and latent, and sums of them all.
  assert work["memory"]["donated"] > 8 * found["parameters"]


@pytest.mark.parametrize(
    "argv, says",
    [
        (["--topology=v3:8x16"], "Which experiment"),
        (["--config=configs/demo.py"], "for what slice"),
        (["--config=configs/demo.py", "--topology=v3-8"], "CHIP:AxB"),
        (["--config=configs/demo.py", "--topology=cpu:1", "--decode=0"],
         "--decode=0"),
        (["--config=configs/demo.py", "--topology=cpu:3"], "batch_size=16"),
    ],
)
def test_errors_are_one_line(argv, says):
  done = run(*argv)
  assert done.returncode == 2
  assert done.stderr.count("\n") == 1 and says in done.stderr, done.stderr


def test_batches_that_do_not_divide_are_refused():
  c = small()
  c.train.accumulate = 3
  with pytest.raises(errors.UserError, match="accumulate=3"):
    plan.plan(c, "cpu:1")


def test_auto_is_the_slices_choice_not_this_machines():
  tpu = plan.resolve(small(), "tpu")
  assert (tpu.model.dtype, tpu.model.scan_layers) == ("bfloat16", True)
  cpu = plan.resolve(small(), "cpu")
  assert (cpu.model.dtype, cpu.model.scan_layers) == ("float32", False)
  c = small()
  c.model.dtype = "float32"
  assert plan.resolve(c, "tpu").model.dtype == "float32"


def test_alternatives_need_less_and_less():
  c = small()
  c.model.remat = "dots"
  assert list(plan.alternatives(c, 4)) == [
      {"model.remat": "full"},
      {"model.remat": "full", "train.accumulate": 2},
      {"model.remat": "full", "train.accumulate": 4},
      {"model.remat": "full", "train.accumulate": 1, "train.batch_size": 8},
      {"model.remat": "full", "train.accumulate": 1, "train.batch_size": 4},
  ]


def test_nearest_takes_the_first_that_fits():
  seen = []

  def memory(config):
    seen.append((config.model.remat, config.train.accumulate))
    return {"fits": config.train.accumulate == 2, "peak": 7}

  found = plan.nearest(small(), 4, memory)
  assert seen == [("dots", 1), ("full", 1), ("full", 2)]
  assert found == {
      "overrides": {"model.remat": "full", "train.accumulate": 2}, "peak": 7
  }
  assert plan.nearest(small(), 4, lambda c: {"fits": False}) == {}


def test_what_does_not_fit_exits_with_one(monkeypatch, capsys):
  too_much = {"memory": {"peak": 2, "available": 1, "fits": False}}
  monkeypatch.setattr(
      plan, "plan", lambda *a, **k: {"training": too_much}
  )
  plan.FLAGS.unparse_flags()
  argv = ["plan", "--config=configs/demo.py", "--topology=v3:2x2", "--json"]
  monkeypatch.setattr(sys, "argv", argv)
  with pytest.raises(SystemExit) as e:
    plan.command.run(plan.main, plan.FLAGS, plan.__doc__, argv)
  assert e.value.code == 1
  assert json.loads(capsys.readouterr().out) == {"training": too_much}
