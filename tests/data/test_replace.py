"""A folder is replaced as a whole or not at all."""

import pathlib

import pytest

from ctrl_jax import errors
from ctrl_jax.data import replace

KIND = replace.Kind(
    "set", lambda folder: (folder / "file").exists(), "Name another."
)


def test_replaces_at_the_end(tmp_path):
  folder = tmp_path / "deep" / "a"
  for content in ("one", "two"):
    with replace.replacing(folder, KIND) as partial:
      (partial / "file").write_text(content)
    assert (folder / "file").read_text() == content
  assert [p.name for p in folder.parent.iterdir()] == ["a"]


def test_failure_leaves_the_old_folder_and_nothing_else(tmp_path):
  folder = tmp_path / "a"
  for existing in (False, True):
    if existing:
      folder.mkdir()
      (folder / "file").write_text("old")
    with (
        pytest.raises(KeyboardInterrupt),
        replace.replacing(folder, KIND) as partial,
    ):
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
  with pytest.raises(RuntimeError), replace.replacing(tmp_path / "a", KIND):
    raise RuntimeError
  assert [p.name for p in tmp_path.iterdir()] == ["a"]
  assert (tmp_path / "a" / "file").read_text() == "old"


def test_one_process_at_a_time(tmp_path):
  folder = tmp_path / "a"
  with replace.replacing(folder, KIND) as partial:
    (partial / "file").write_text("one")
    with (
        pytest.raises(errors.UserError, match="Another process is making"),
        replace.replacing(folder, KIND),
    ):
      pass
  assert (folder / "file").read_text() == "one"
  assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.fixture
def victim(tmp_path):
  """A folder of somebody else's."""
  folder = tmp_path / "victim"
  folder.mkdir()
  (folder / "thesis.txt").write_text("years of work")
  return folder


@pytest.mark.parametrize(
    "path",
    ["victim", "missing/../victim", "missing/deep/../../victim", "link",
     "victim/../victim", "there/../victim"],
)
def test_another_kind_is_left_alone_by_whatever_path(victim, path):
  parent = victim.parent
  (parent / "link").symlink_to(victim)
  (parent / "there").mkdir()
  before = sorted(p.name for p in parent.iterdir())
  for action in (replace.check, lambda *a: replace.replacing(*a).__enter__()):
    with pytest.raises(errors.UserError, match="left alone. Name another"):
      action(f"{parent}/{path}", KIND)
  assert (victim / "thesis.txt").read_text() == "years of work"
  assert sorted(p.name for p in parent.iterdir()) == before


def test_what_comes_meanwhile_is_left_alone(tmp_path):
  folder = tmp_path / "a"
  with (
      pytest.raises(errors.UserError, match="left alone"),
      replace.replacing(folder, KIND) as partial,
  ):
    (partial / "file").write_text("new")
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
  assert [p.name for p in tmp_path.iterdir()] == ["a"]
  assert (folder / "thesis.txt").read_text() == "years of work"


def test_a_hidden_neighbour_of_another_kind_is_left_alone(tmp_path):
  old = tmp_path / ".a.old"
  old.mkdir()
  (old / "thesis.txt").write_text("years of work")
  with (
      pytest.raises(errors.UserError, match="Move it away to make"),
      replace.replacing(tmp_path / "a", KIND),
  ):
    pass
  assert (old / "thesis.txt").read_text() == "years of work"


def test_the_folder_behind_a_link_is_replaced(tmp_path):
  (tmp_path / "real").mkdir()
  (tmp_path / "link").symlink_to(tmp_path / "real")
  with replace.replacing(tmp_path / "link", KIND) as partial:
    (partial / "file").write_text("new")
  assert (tmp_path / "link").is_symlink()
  assert (tmp_path / "real" / "file").read_text() == "new"


def test_a_bucket_is_no_folder_here(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for folder in ("gs://bucket/data", pathlib.Path("gs://bucket/data")):
    with (
        pytest.raises(errors.UserError, match="'gs://bucket/data' must be a p"),
        replace.replacing(folder, KIND),
    ):
      raise AssertionError("nothing is begun")
  assert not list(tmp_path.iterdir())
