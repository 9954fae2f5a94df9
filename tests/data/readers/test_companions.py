"""Files that belong together."""

import pytest

from ctrl_jax import errors
from ctrl_jax.data.readers import companions


def test_beside(tmp_path):
  for name in ("a_abs.txt", "a_title.txt"):
    (tmp_path / name).write_text("x\n")
  file = str(tmp_path / "a_abs.txt")
  other = str(tmp_path / "a_title.txt")
  assert companions.beside(file, "_abs.", "_title.") == other
  with pytest.raises(errors.UserError, match=r"no '_x\.'"):
    companions.beside(file, "_x.", "_y.")
  with pytest.raises(errors.UserError, match=r"a_y\.txt' is missing"):
    companions.beside(file, "_abs.", "_y.")


def test_pairs(tmp_path):
  a, b = tmp_path / "a", tmp_path / "b"
  a.write_text(" one \ntwo\n")
  b.write_text("1\n2")
  assert list(companions.pairs(str(a), str(b))) == [
      (1, "one", "1"), (2, "two", "2"),
  ]
  b.write_text("1\n")
  for first, second in ((a, b), (b, a)):
    with pytest.raises(errors.UserError, match=r"b' has 1 texts, '.*a' has"):
      list(companions.pairs(str(first), str(second)))
