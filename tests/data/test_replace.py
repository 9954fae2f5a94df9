"""A folder is replaced as a whole or not at all."""

import pytest

from ctrl_jax import errors
from ctrl_jax.data import replace


def test_replaces_at_the_end(tmp_path):
  folder = tmp_path / "deep" / "a"
  for content in ("one", "two"):
    with replace.replacing(folder) as partial:
      (partial / "file").write_text(content)
    assert (folder / "file").read_text() == content
  assert [p.name for p in folder.parent.iterdir()] == ["a"]


def test_failure_leaves_the_old_folder_and_nothing_else(tmp_path):
  folder = tmp_path / "a"
  for existing in (False, True):
    if existing:
      folder.mkdir()
      (folder / "file").write_text("old")
    with pytest.raises(KeyboardInterrupt), replace.replacing(folder) as partial:
      (partial / "file").write_text("half")
      raise KeyboardInterrupt
    assert folder.exists() == existing
    assert len(list(tmp_path.iterdir())) == existing
  assert (folder / "file").read_text() == "old"


def test_recovers_from_a_killed_run(tmp_path):
  # Killed between moving the old folder away and the new one in.
  (tmp_path / ".a.old").mkdir()
  (tmp_path / ".a.old" / "file").write_text("old")
  (tmp_path / ".a.partial").mkdir()
  with pytest.raises(RuntimeError), replace.replacing(tmp_path / "a"):
    raise RuntimeError
  assert [p.name for p in tmp_path.iterdir()] == ["a"]
  assert (tmp_path / "a" / "file").read_text() == "old"


def test_one_process_at_a_time(tmp_path):
  folder = tmp_path / "a"
  with replace.replacing(folder) as partial:
    (partial / "file").write_text("one")
    with (
        pytest.raises(errors.UserError, match="Another process is making"),
        replace.replacing(folder),
    ):
      pass
  assert (folder / "file").read_text() == "one"
  assert [p.name for p in tmp_path.iterdir()] == ["a"]
