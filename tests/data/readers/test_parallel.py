import gzip

import pytest

from ctrl_jax import errors
from ctrl_jax.data.readers import parallel


def test_pairs_line_by_line(tmp_path):
  (tmp_path / "ep.en").write_text("Resumption \n\nI agree.\nLost\n")
  (tmp_path / "ep.de").write_text("Wiederaufnahme\nx\nJa.\n\n")
  found = list(parallel.read([f"{tmp_path}/ep.en", f"{tmp_path}/ep.de"]))
  assert found == [
      (
          {"source": "Resumption", "target": "Wiederaufnahme"},
          f"{tmp_path}/ep.en:1",
      ),
      ({"source": "I agree.", "target": "Ja."}, f"{tmp_path}/ep.en:3"),
  ]


def test_globs_pair_files_by_name(tmp_path):
  for year, english, french in ((2000, "Peace", "Paix"), (2001, "War", "G.")):
    for language, text in (("en", english), ("fr", french)):
      (tmp_path / f"undoc.{year}.fr-en.{language}.gz").write_bytes(
          gzip.compress(text.encode())
      )
  path = [f"{tmp_path}/undoc.*.fr-en.{end}.gz" for end in ("en", "fr")]
  assert [tuple(fields.values()) for fields, _ in parallel.read(path)] == [
      ("Peace", "Paix"), ("War", "G.")
  ]
  (tmp_path / "undoc.2001.fr-en.fr.gz").unlink()
  with pytest.raises(errors.UserError, match="names 2 files and .* 1: each"):
    list(parallel.read(path))


def test_files_of_different_length(tmp_path):
  (tmp_path / "a.en").write_text("one\ntwo\n")
  (tmp_path / "a.de").write_text("eins\n")
  with pytest.raises(errors.UserError, match=r"a\.de ends at line 1, before"):
    list(parallel.read([f"{tmp_path}/a.en", f"{tmp_path}/a.de"]))


@pytest.mark.parametrize("path", [["a"], ["a", "b", "c"]])
def test_not_two_paths(path):
  with pytest.raises(errors.UserError, match="needs two paths"):
    list(parallel.read(path))
