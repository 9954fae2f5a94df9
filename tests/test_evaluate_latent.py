"""The command `evaluate_latent` on a CVAE of a few steps."""

import json
import math
import pathlib

import command_runs
import pytest

from ctrl_jax import evaluate_latent


@pytest.fixture(scope="module")
def runs(cvae_workdirs):
  return cvae_workdirs


@pytest.fixture
def run(capsys):
  def call(*arguments):
    code = command_runs.run(evaluate_latent, *arguments)
    return code, *capsys.readouterr()

  return call


def test_measures_of_the_data_sets_texts(runs, run, tmp_path):
  code, out, err = run(
      f"--model={runs['along']}", "--samples=3", "--split=validation",
      f"--output={tmp_path}", "--label={fruit}", "--plots",
  )
  assert (code, err) == (0, "")
  found = json.loads((tmp_path / "latent.json").read_text())
  know, bound = found["information"], found["bounds"]
  count = know["sequences"]
  assert count == bound["sequences"] > 5 and bound["samples"] == 3
  assert know["mutual_information_bound"] == math.log(count)
  assert len(know["kl_by_dimension"]) == know["latent_size"] == 4
  perplexity = bound["perplexity"]["elbo"]
  assert 1 < perplexity["low"] < perplexity["value"] < perplexity["high"]
  assert set(found["labels"]) == {"posterior", "prior"}
  assert found["labels"]["prior"]["test"] == count
  assert "importance weighted" in out and "labels of the prior" in out
  assert found["settings"]["label"] == "{fruit}"
  assert {p.name for p in tmp_path.glob("*.png")} == {
      "t_sne.png", "kl_by_dimension.png", "training.png"
  }


def test_of_a_file_and_of_records(runs, run):
  code, _, err = run(
      f"--model={runs['beside']}", f"--input={runs['pairs']}", "--samples=1",
      "--texts=6", "--bound-texts=3",
  )
  assert (code, err) == (0, "")
  file = pathlib.Path(runs["beside"]) / "evaluation" / "latent.json"
  found = json.loads(file.read_text())
  assert found["information"]["sequences"] == 6
  assert found["bounds"]["sequences"] == 3
  code, _, _ = run(
      f"--model={runs['beside']}", "--samples=1", "--split=validation",
  )
  assert code == 0
  assert json.loads(file.read_text())["information"]["sequences"] != 6


@pytest.mark.parametrize("arguments, message", [
    ([], "Which model"),
    (["--model={base}"], "no latent"),
    (["--model={along}", "--split=test", "--input={pairs}",
      "--label={{fruit}}", "--samples=1"], "--train-input"),
    (["--model={along}", "--input=gone.jsonl"], "gone.jsonl"),
    (["--model={along}", "--samples=0"], "samples"),
])
def test_bad_input(runs, run, arguments, message):
  code, _, err = run(*(a.format(**runs) for a in arguments))
  assert code == 2 and message in err and err.count("\n") == 1
