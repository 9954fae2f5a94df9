import json

from ctrl_jax.experiments import topic_report


def test_table_and_judge(tmp_path):
  interval = lambda x: dict(value=x, low=x - 0.01, high=x + 0.01)
  line = dict(
      method="base", step=0, seed=0, accuracy=interval(0.3), slor=interval(2.0)
  )
  line["accuracy"]["real"] = interval(0.8)
  (tmp_path / "base-0.jsonl").write_text(json.dumps(line) + "\n")
  text = topic_report.write(tmp_path)
  assert "| base | 30.0 [29.0, 31.0] | 2.00 [1.99, 2.01] |" in text
  assert "right on 80.0 [79.0, 81.0] % of real text" in text
  assert (tmp_path / "curves.png").exists()
