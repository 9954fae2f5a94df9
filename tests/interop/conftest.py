"""The original's checkpoint, for the tests of the files and of the model."""

import shutil

import pytest
import shared_data


@pytest.fixture
def folder(tmp_path):
  """A copy of the original's checkpoint, to damage."""
  source = shared_data.path("expected/tf_checkpoint")
  for file in source.iterdir():
    shutil.copyfile(file, tmp_path / file.name)
  return tmp_path
