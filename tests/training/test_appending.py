import fake_bucket
import pytest
from etils import epath

from ctrl_jax.training import appending


def test_on_a_disk_a_line_is_there_at_once(tmp_path):
  file = epath.Path(tmp_path) / "a.txt"
  for word in ("one\n", "two\n"):
    with appending.Appender(file) as f:
      f.write(word)
      assert file.read_text().endswith(word)
  assert file.read_text() == "one\ntwo\n"


@pytest.fixture
def clock(monkeypatch):
  now = [0.0]
  monkeypatch.setattr(appending.time, "monotonic", lambda: now[0])
  return now


def test_in_a_bucket_nothing_is_overwritten(tmp_path, monkeypatch, clock):
  bucket = fake_bucket.make(tmp_path, monkeypatch)
  file = epath.Path("gs://bucket/a.txt")
  with appending.Appender(file) as f:
    f.write("one\n")
  assert (bucket / "a.txt").read_text() == "one\n"
  f = appending.Appender(file)
  f.write("two\n")
  assert (bucket / "a.txt").read_text() == "one\n"
  f.flush()
  assert (bucket / "a.txt").read_text() == "one\ntwo\n"
  clock[0] += 61
  f.write("three\n")  # A minute has gone by.
  assert (bucket / "a.txt").read_text() == "one\ntwo\nthree\n"
  f.write("four\n")
  f.close()
  assert (bucket / "a.txt").read_text() == "one\ntwo\nthree\nfour\n"
