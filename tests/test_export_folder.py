"""Where an export may go, and where not."""

import pytest

from ctrl_jax import errors, export_folder


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "to, says",
    [
        ("other", "left alone"),
        ("missing/../other", "left alone"),
        ("", "holds the model .* itself"),
        ("run", "holds the model .* itself"),
        ("other/thesis.txt", "is a file"),
    ],
)
def test_folders_that_are_something_else(tmp_path, to, says, force):
  for name in ("run/config.json", "other/thesis.txt"):
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text("mine")
  with pytest.raises(errors.UserError, match=says):
    export_folder.find(tmp_path / to, tmp_path / "run", force)
  assert (tmp_path / "other" / "thesis.txt").read_text() == "mine"


def test_buckets():
  with pytest.raises(errors.UserError, match="on this machine"):
    export_folder.find("gs://bucket/export", "runs/model", False)


def test_an_earlier_export_is_replaced_by_force(tmp_path):
  folder = tmp_path / "export"
  assert export_folder.find(folder, tmp_path / "run", False) == folder
  folder.mkdir()
  assert export_folder.find(folder, tmp_path / "run", False) == folder
  for name in ("ctrl_jax.json", "config.json"):
    (folder / name).write_text("{}")
  with pytest.raises(errors.UserError, match="replace it with --force"):
    export_folder.find(folder, tmp_path / "run", False)
  assert export_folder.find(folder, tmp_path / "run", True) == folder
  with export_folder.replacing(folder) as partial:
    (partial / "new").write_text("new")
  assert [p.name for p in folder.iterdir()] == ["new"]


def test_exports_of_other_programs(tmp_path):
  """CTranslate2's and transformers' have no mark of ours."""
  folder = tmp_path / "theirs"
  folder.mkdir()
  for name in ("model.bin", "config.json", "vocabulary.json"):
    (folder / name).write_text("theirs")
  with pytest.raises(errors.UserError, match="left alone"):
    export_folder.find(folder, tmp_path / "run", True)
