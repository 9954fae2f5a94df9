"""Configurations by name."""

import pytest

from ctrl_jax import errors
from ctrl_jax.experiments import config_files


def test_configurations_take_an_argument(tmp_path):
  file = tmp_path / "c.py"
  file.write_text("def get_config(name='x'):\n  return name\n")
  assert config_files.load(str(file)) == "x"
  assert config_files.load(f"{file}:y") == "y"
  assert config_files.find(f"{file}:y") == (file, "y")


def test_a_file_that_is_not_there():
  with pytest.raises(errors.UserError, match="There is no configuration"):
    config_files.load("gone.py:x")
