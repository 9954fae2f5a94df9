"""The command `experiment`; what it runs has tests of its own."""

import json

import pytest

from ctrl_jax import errors, experiment


def run(*args):
  experiment.FLAGS.unparse_flags()
  experiment.FLAGS(["experiment", *args])
  experiment.main()


@pytest.mark.parametrize(
    "args", [(), ("--experiment=x.py",), ("--output=results",)]
)
def test_both_are_needed(args):
  with pytest.raises(errors.UserError, match="Which experiment, and where"):
    run(*args)


def test_an_experiment_that_is_not_there(tmp_path):
  with pytest.raises(errors.UserError, match=r"none\.py"):
    run(f"--experiment={tmp_path}/none.py", f"--output={tmp_path}/results")
  assert not (tmp_path / "results").exists()


def test_only_the_report(tmp_path, capsys):
  interval = dict(value=0.5, low=0.4, high=0.6)
  line = dict(method="scratch", step=3, seed=0, accuracy=interval,
              slor=interval, flops=1.0)
  (tmp_path / "scratch.jsonl").write_text(json.dumps(line) + "\n")
  file = tmp_path / "x.py"
  file.write_text("def get_config():\n  return dict(kind='keyword')\n")
  run(f"--experiment={file}", f"--output={tmp_path}", "--report")
  assert "| scratch | 50.0 [40.0, 60.0] |" in capsys.readouterr().out
