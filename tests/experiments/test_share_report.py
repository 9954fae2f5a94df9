"""Methods on parts of the training text, of lines that were written by hand."""

from ctrl_jax.experiments import share_report


def line(share, accuracy, step=6, seed=0):
  interval = lambda x: dict(value=x, low=x - 0.01, high=x + 0.01)
  return dict(
      step=step, seed=seed, accuracy=interval(accuracy),
      slor=interval(2 + accuracy), train_share=share,
      train_documents=round(40_000 * share), test_perplexity=30.0,
  )


FOUND = {
    "auxiliary": [line(1, 0.3, step=3), line(1, 0.6), line(1, 0.8, seed=1)],
    "auxiliary@1": [line(0.01, 0.1)],
    "auxiliary@10": [line(0.1, 0.4)],
    "lora": [line(1, 0.5)],
    "base": [dict(
        step=0, accuracy=dict(value=0.02, low=0.01, high=0.03),
        slor=dict(value=2.0, low=1.9, high=2.1), base_perplexity=50.0,
    )],
}


def test_parts_by_name():
  assert [n for n in FOUND if share_report.is_part(n)] == [
      "auxiliary@1", "auxiliary@10"
  ]


def test_lines_at_the_last_step():
  (name, found), = share_report.by_share(FOUND).items()
  assert name == "auxiliary" and sorted(found) == [0.01, 0.1, 1]
  assert [x["accuracy"]["value"] for x in found[1]] == [0.6, 0.8]


def test_the_table_by_hand():
  _, _, *rows = share_report.table(FOUND).splitlines()
  assert rows == [
      "| base | – | – | 2.0 [1.0, 3.0] | 2.00 [1.90, 2.10] | – | 50.0 |",
      "| auxiliary | 100 | 40,000 | 70.0 [69.0, 71.0] (60.0–80.0) | 2.70 [2.69,"
      " 2.71] (2.60–2.80) | 30.0 | – |",
      "| auxiliary | 10 | 4,000 | 40.0 [39.0, 41.0] | 2.40 [2.39, 2.41] | 30.0"
      " | – |",
      "| auxiliary | 1 | 400 | 10.0 [9.0, 11.0] | 2.10 [2.09, 2.11] | 30.0 | –"
      " |",
  ]


def test_files(tmp_path):
  share_report.write(tmp_path, {"lora": FOUND["lora"]})
  assert not list(tmp_path.iterdir())
  share_report.write(tmp_path, FOUND)
  assert (tmp_path / "shares.md").read_text() == share_report.table(FOUND)
  assert (tmp_path / "shares.png").read_bytes()[:4] == b"\x89PNG"
