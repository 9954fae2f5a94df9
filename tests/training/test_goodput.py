import json

import pytest

from ctrl_jax import errors
from ctrl_jax.training import goodput


@pytest.fixture
def clock(monkeypatch):
  now = [1000.0]
  monkeypatch.setattr(goodput.time, "time", lambda: now[0])
  return now


def test_counts_from_the_first_start_on_with_all_that_lay_between(
    tmp_path, clock
):
  first = goodput.Goodput(goodput.epath.Path(tmp_path))
  clock[0] += 100  # 60 of them in steps; a checkpoint after 50 seconds.
  assert first.share(60.0) == pytest.approx(0.6)
  saved = first.productive(50.0)
  clock[0] += 400  # No machine.
  again = goodput.Goodput(goodput.epath.Path(tmp_path), saved)
  assert again.share(0.0) == pytest.approx(50 / 500)
  clock[0] += 500
  assert again.share(450.0) == pytest.approx(500 / 1000)
  assert again.productive(450.0) == 500.0


def test_a_clock_that_is_behind(tmp_path, clock):
  goodput.Goodput(goodput.epath.Path(tmp_path))
  clock[0] -= 50
  again = goodput.Goodput(goodput.epath.Path(tmp_path), 10.0)
  assert again.share(5.0) == 1.0


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"first_start": "x"}'])
def test_a_damaged_file(tmp_path, text):
  (tmp_path / "goodput.json").write_text(text)
  with pytest.raises(errors.UserError, match="is damaged .* delete it"):
    goodput.Goodput(goodput.epath.Path(tmp_path))


def test_what_lies_there(tmp_path, clock):
  goodput.Goodput(goodput.epath.Path(tmp_path))
  (file,) = tmp_path.iterdir()
  assert json.loads(file.read_text()) == {"first_start": 1000.0}
