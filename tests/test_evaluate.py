"""The command `evaluate`."""

import json

import evaluation_fakes as fakes
import numpy as np
import pytest

from ctrl_jax import command, evaluate


@pytest.fixture
def run(capsys):
  """Runs the command; returns exit code, stdout, stderr."""

  def run(*arguments):
    for name in evaluate.FLAGS:
      evaluate.FLAGS[name].unparse()
    code = 0
    try:
      command.run(evaluate.main, evaluate.FLAGS, "", ["e", *arguments])
    except SystemExit as e:
      code = e.code
    return code, *capsys.readouterr()

  return run


@pytest.fixture
def workdir(tmp_path, monkeypatch):
  fakes.write_dataset(tmp_path / "data")
  fakes.write_workdir(tmp_path / "run", monkeypatch, tmp_path / "data")
  return tmp_path / "run"


def test_matrix_and_attribution(run, workdir):
  code, out, _ = run(
      f"--model={workdir}", "--min_tokens=5", "--max_documents=4",
      "--max_tokens=20",
  )
  assert code == 0
  folder = workdir / "evaluation"
  assert sorted(p.name for p in folder.iterdir()) == [
      "evaluation.json", "perplexity_matrix.png"
  ]
  found = json.loads((folder / "evaluation.json").read_text())
  assert found["settings"]["split"] == "test"
  assert found["settings"]["max_tokens"] == 20
  assert found["matrix"]["codes"] == list(fakes.CODES)
  matrix = np.array(found["matrix"]["perplexity"])
  assert matrix.shape == (3, 3)
  right = [d["right_code"] for d in found["domains"].values()]
  np.testing.assert_allclose(np.diag(matrix), right)
  assert found["attribution"]["documents"] == 12
  assert found["baseline"]["top1"] > 0.9
  assert "data_prior" in found["attribution"]
  assert "Attribution of 12 documents" in out


def test_control(run, workdir, tmp_path):
  code, out, _ = run(
      f"--model={workdir}", "--nomatrix", "--control", "--samples=3",
      "--max_new_tokens=4", "--min_tokens=5", f"--output={tmp_path / 'out'}",
      f"--data={tmp_path / 'data'}",
  )
  assert code == 0
  assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
      "control.json", "control.png"
  ]
  found = json.loads((tmp_path / "out" / "control.json").read_text())
  assert found["options"]["max_new_tokens"] == 4
  assert found["samples_a_code"] == 10
  np.testing.assert_allclose(np.sum(found["confusion"], -1), 1)
  assert 0 <= found["judge"]["accuracy"] <= 1
  assert "no code" in out


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "Give --model"),
        (["--model=RUN", "--nomatrix"], "Nothing to do"),
        (["--model=gs://b/run", "--data=d"], "needs --data and --output"),
        (["--model=RUN", "--data=nowhere"], "No prepared data set in 'nowhere"),
        (["--model=RUN", "--min_tokens=999"], "Only 0 of 3 control codes"),
        (["--model=RUN", "--min_tokens=0"], "min_tokens"),
        (["--model=RUN", "--split=train"], "split"),
        (["--model=RUN", "--control", "--nomatrix", "--min_tokens=5",
          "--top_p=0"], "top_p"),
    ],
)
def test_bad_input(run, workdir, arguments, message):
  code, _, err = run(*[a.replace("RUN", str(workdir)) for a in arguments])
  assert code == 2
  assert message in err.splitlines()[-1]


def test_export_needs_the_data_set(run, tmp_path):
  fakes.write_export(tmp_path / "export", codes=fakes.CODES)
  code, _, err = run(f"--model={tmp_path / 'export'}")
  assert code == 2
  assert "give --data" in err
