"""The released CTRL's control codes: its own table, and files like it."""

import pytest
import shared_data

from ctrl_jax import errors
from ctrl_jax.text import ctrl_codes


def test_the_releases_codes():
  assert len(ctrl_codes.PRIORS) == 55
  assert list(ctrl_codes.PRIORS)[0] == "Pregnancy"
  assert list(ctrl_codes.PRIORS)[-1] == "multilingual"
  assert max(ctrl_codes.PRIORS, key=ctrl_codes.PRIORS.get) == "Links"
  assert min(ctrl_codes.PRIORS.values()) > 0
  assert sum(ctrl_codes.PRIORS.values()) == pytest.approx(1, abs=1e-3)
  # Each is one word, or `code_ids` would look for two.
  assert all(code.split() == [code] for code in ctrl_codes.PRIORS)


def test_they_are_those_of_the_releases_file():
  file = shared_data.path(f"tokenizers/ctrl/{ctrl_codes.FILE}")
  found = ctrl_codes.read(file)
  assert found == ctrl_codes.PRIORS
  assert list(found) == list(ctrl_codes.PRIORS)


def test_its_table_comes_back_from_a_file(tmp_path):
  file = tmp_path / ctrl_codes.FILE
  file.write_text(
      "".join(f"{p!r}  {code}\n" for code, p in ctrl_codes.PRIORS.items())
  )
  found = ctrl_codes.read(str(file))
  assert found == ctrl_codes.PRIORS
  assert list(found) == list(ctrl_codes.PRIORS)


def test_spaces_blank_lines_and_codes_of_several_words(tmp_path):
  file = tmp_path / "a.txt"
  file.write_text(" 6.88985E-05 \t Saving \r\n\n  \n0.5 Reddit r/é", "utf-8")
  assert ctrl_codes.read(file) == {"Saving": 6.88985e-05, "Reddit r/é": 0.5}


@pytest.mark.parametrize("line", ["Books 0.1", "0.1", "Books", "0,1 Books"])
def test_a_bad_line_is_named(tmp_path, line):
  file = tmp_path / "a.txt"
  file.write_text(f"0.9 Books\n\n{line}\n")
  with pytest.raises(errors.UserError) as e:
    ctrl_codes.read(file)
  assert str(e.value) == (
      f"{file}, line 3: expected a share and a control code, as in"
      " `0.00028  Relationship`."
  )
