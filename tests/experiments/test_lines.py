import pytest

from ctrl_jax import errors
from ctrl_jax.experiments import lines


def test_what_is_added_is_read(tmp_path):
  file = tmp_path / "a-0.jsonl"
  assert lines.read(file) == []
  lines.append(file, dict(method="a", step=2, seed=0))
  lines.append(file, dict(method="a", step=1, seed=0, text="é"))
  lines.append(tmp_path / "a-1.jsonl", dict(method="a", step=2, seed=1))
  assert [x["step"] for x in lines.read(file)] == [2, 1]
  found = lines.collect(tmp_path)
  assert [(x["step"], x["seed"]) for x in found["a"]] == [
      (1, 0), (2, 0), (2, 1)
  ]
  assert [x["seed"] for x in lines.last(found["a"])] == [0, 1]
  assert lines.collect(tmp_path / "gone") == {}


def test_nothing_is_written_of_what_cannot_be(tmp_path):
  file = tmp_path / "a-0.jsonl"
  lines.append(file, dict(step=1))
  with pytest.raises(ValueError):
    lines.append(file, dict(step=float("nan")))
  assert lines.read(file) == [dict(step=1)]
  assert [p.name for p in tmp_path.iterdir()] == ["a-0.jsonl"]


def test_a_damaged_line_is_named(tmp_path):
  file = tmp_path / "a-0.jsonl"
  file.write_text("{}\n{")
  with pytest.raises(errors.UserError, match="line 2 is damaged"):
    lines.read(file)
