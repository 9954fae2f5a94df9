import time

import pytest

from ctrl_jax.training import progress


def test_rates_count_tokens_since_the_last_call_without_pauses(monkeypatch):
  now = [100.0]
  monkeypatch.setattr(time, "monotonic", lambda: now[0])
  p = progress.Progress(10, 0, 2e6, 1e9, show=False)
  for _ in range(3):
    p.step(1000)
    now[0] += 1
  with p.pause():
    now[0] += 50
  rates = p.rates()
  assert rates["tokens_per_second"] == pytest.approx(1000)
  assert rates["mfu"] == pytest.approx(1000 * 2e6 / 1e9)
  assert p.productive == pytest.approx(3)
  p.step(500)
  now[0] += 2
  assert p.rates()["tokens_per_second"] == pytest.approx(250)
  assert p.productive == pytest.approx(5)


def test_no_mfu_without_a_known_peak():
  p = progress.Progress(10, 0, 2e6, 0.0, show=False)
  assert "mfu" not in p.rates()
