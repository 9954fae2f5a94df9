import sys

import pytest

from ctrl_jax import command, train


def run(capsys, *argv):
  train.FLAGS.unparse_flags()
  # Overrides of configuration fields are looked up there.
  sys.argv = ["train", *argv]
  with pytest.raises(SystemExit) as e:
    command.run(train.main, train.FLAGS, train.__doc__, sys.argv)
  return e.value.code, capsys.readouterr().err


def test_says_what_is_missing(capsys):
  code, err = run(capsys)
  assert code == 2 and "--config=configs/demo.py" in err


def test_names_the_prepare_command(capsys, tmp_path):
  code, err = run(
      capsys, "--config=configs/ctrl_1b.py", f"--workdir={tmp_path}/run",
      f"--config.data.folder={tmp_path}/none",
  )
  assert code == 2 and err.count("\n") == 1
  assert "python -m ctrl_jax.prepare --config=configs/ctrl_1b.py" in err
  assert not (tmp_path / "run").exists()
