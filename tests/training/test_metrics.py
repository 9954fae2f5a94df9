import json

from ctrl_jax.training import metrics


def test_lines_and_appending(tmp_path):
  for step in (1, 2):
    writer = metrics.MetricWriter(tmp_path)
    writer.write(step, {"train": {"loss": 2.5}, "deep": {"a": {"b": 1.0}}})
    writer.close()
  lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
  assert [json.loads(x) for x in lines] == [
      {"step": s, "train/loss": 2.5, "deep/a/b": 1.0} for s in (1, 2)
  ]
  assert any((tmp_path / "tensorboard").iterdir())
