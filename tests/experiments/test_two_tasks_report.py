import json

from ctrl_jax.experiments import two_tasks_report


def test_the_table_by_hand(tmp_path):
  interval = lambda x: dict(value=x, low=x - 0.01, high=x + 0.01)
  task = lambda accuracy, slor, **more: dict(
      accuracy=interval(accuracy) | more, slor=interval(slor)
  )
  line = dict(
      method="two", step=0, seed=0, keyword=task(0.1, 2.1),
      topic=task(0.2, 2.2),
      both=task(0.3, 2.3, keyword=interval(0.4), topic=interval(0.5)),
  )
  (tmp_path / "two-0.jsonl").write_text(json.dumps(line) + "\n")
  text = two_tasks_report.write(tmp_path)
  assert text.splitlines()[2] == (
      "| two | 10.0 [9.0, 11.0] | 2.10 [2.09, 2.11] | 20.0 [19.0, 21.0] | 2.20"
      " [2.19, 2.21] | 40.0 [39.0, 41.0] | 50.0 [49.0, 51.0] | 30.0 [29.0,"
      " 31.0] | 2.30 [2.29, 2.31] | – |"
  )
  assert (tmp_path / "table.md").read_text() == text
