import logging

import fake_bucket
import jax
import jax.numpy as jnp
import pytest
from etils import epath

from ctrl_jax import errors
from ctrl_jax.training import profile


def test_steps():
  assert profile.parse("100:105", 105) == range(100, 105)
  assert not profile.parse("", 10)


@pytest.mark.parametrize(
    "text", ["5", "5:", "5:5", "7:6", "a:b", "-1:3", "1:2:3", "8:11", " 1:2"]
)
def test_bad_steps(text):
  with pytest.raises(errors.UserError, match="train.steps=10, as in") as e:
    profile.parse(text, 10)
  assert text in str(e.value) and "\n" not in str(e.value)


def due(p, steps):
  """The steps before which a loop over `steps` switches."""
  found = []
  for step in steps:
    if p.is_due(step):
      p.switch()
      found.append(step)
  return found


def test_switches_before_the_first_and_after_the_last(tmp_path, monkeypatch):
  calls = []
  monkeypatch.setattr(jax.profiler, "start_trace", lambda _: calls.append(1))
  monkeypatch.setattr(jax.profiler, "stop_trace", lambda: calls.append(0))
  folder = epath.Path(tmp_path)
  assert due(profile.Profile(range(2, 4), folder), range(8)) == [2, 4]
  assert calls == [1, 0]
  # Resumed in the middle; the run ends before the last.
  p = profile.Profile(range(2, 9), folder, 5)
  assert due(p, range(5, 8)) == [5]
  p.close()
  p.close()
  assert calls == [1, 0] * 2
  assert due(profile.Profile(range(0), folder), range(8)) == []


def test_resumed_after_them_says_so(tmp_path, caplog, monkeypatch):
  monkeypatch.setattr(logging.getLogger("ctrl_jax"), "propagate", True)
  p = profile.Profile(range(2, 4), epath.Path(tmp_path), 4)
  assert "--profile=2:4: the run is at step 4 already" in caplog.text
  assert due(p, range(4, 8)) == []


def test_a_trace_in_a_bucket(tmp_path, monkeypatch):
  bucket = fake_bucket.make(tmp_path, monkeypatch)
  p = profile.Profile(range(1), epath.Path("gs://bucket/run"))
  p.switch()
  jnp.ones(3).block_until_ready()
  p.close()
  (file,) = (bucket / "run" / "profile").rglob("*.xplane.pb")
  assert any(jax.profiler.ProfileData.from_file(str(file)).planes)
