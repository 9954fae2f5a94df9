"""Table and curves of lines that were written by hand."""

import json

import pytest

from ctrl_jax.experiments import keyword_report


def line(method, step, seed, accuracy, **fields):
  interval = lambda x: dict(
      value=x, low=x - 0.01, high=x + 0.01, samples=500
  )
  return dict(
      method=method, step=step, seed=seed, accuracy=interval(accuracy),
      slor=interval(2.0 + accuracy), slor_continuation=interval(accuracy),
      diversity=dict(distinct_2=0.5),
      tokens_per_second=100.0, flops=1e9 * step, sample_bytes=12e6, **fields,
  )


TRAINING = dict(train_tokens_per_second=250.0, train_bytes=300e6)
LINES = {
    "base.jsonl": [line("base", 0, 0, 0.02)],
    "auxiliary_0.jsonl": [
        line("auxiliary", 5, 0, 0.4),
        line("auxiliary", 10, 0, 0.5, test_perplexity=30.0, **TRAINING),
    ],
    "auxiliary_1.jsonl": [
        line("auxiliary", 10, 1, 0.7, test_perplexity=40.0, **TRAINING)
    ],
}


@pytest.fixture
def folder(tmp_path):
  for name, lines in LINES.items():
    text = "".join(json.dumps(x) + "\n" for x in lines)
    (tmp_path / name).write_text(text)
  return tmp_path


def test_the_table_by_hand(folder):
  _, _, auxiliary, base = keyword_report.write(folder).splitlines()
  # The mean of two seeds and of their intervals, the range of both.
  assert auxiliary == (
      "| auxiliary | 60.0 [59.0, 61.0] (50.0–70.0) | 2.60 [2.59, 2.61]"
      " (2.50–2.70) | 0.60 [0.59, 0.61] (0.50–0.70) | 500 | 35.0 | 0.50 | – |"
      " 250 | 100 | 300 | 12 |"
  )
  assert base == (
      "| base | 2.0 [1.0, 3.0] | 2.02 [2.01, 2.03] | 0.02 [0.01, 0.03] | 500 |"
      " – | 0.50 | – | – | 100 | – | 12 |"
  )


def test_targets_by_hand():
  found = {
      "auxiliary": [
          line("auxiliary", 1, 0, 0.5), line("auxiliary", 1, 1, 0.58),
          line("auxiliary", 10, 0, 0.6),
      ],
      "scratch": [line("scratch", 10, 0, 0.4)],
      "lora": [line("lora", 10, 0, 0.62)],
      "lora@10": [line("lora@10", 10, 0, 0.9)],
      "base": [line("base", 0, 0, 0.95)],
  }
  assert keyword_report.targets(found) == (
      "At a tenth of the budget auxiliary has a SLOR of 2.54, scratch at the"
      " end 2.40; its accuracy is then 90 % of its own at the end. At the end"
      " its accuracy is 60.0 %, that of the best trained method, lora, 62.0"
      " %.\n"
  )
  assert not keyword_report.targets({"auxiliary": found["auxiliary"]})
  found["auxiliary"] = found["auxiliary"][2:]
  assert not keyword_report.targets(found)


def test_files(folder):
  text = keyword_report.write(folder)
  assert (folder / "table.md").read_text() == text
  for name in ("curves.png", "curves_flops.png"):
    assert (folder / name).read_bytes()[:4] == b"\x89PNG"
