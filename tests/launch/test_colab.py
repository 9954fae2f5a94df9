"""launch/colab.ipynb: its cells, executed on the CPU with small settings."""

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys

import evaluation_fakes as fakes
import pytest

from configs import auxiliary

HERE = pathlib.Path(__file__).parent
FILE = HERE.parents[1] / "launch" / "colab.ipynb"
SMALL = dict(
    BACKEND="cpu", PACKAGES=["optax", "flax"], DOCUMENTS=150, VOCABULARY=300,
    SEQUENCE=32, WIDTH=16, LAYERS=2, STEPS=4, TUNING_STEPS=2, NEW_TOKENS=3,
)


@pytest.fixture(scope="module")
def notebook():
  return json.loads(FILE.read_text())


def sources(notebook):
  return [
      "".join(c["source"]) for c in notebook["cells"]
      if c["cell_type"] == "code"
  ]


def test_is_a_notebook_without_results(notebook):
  assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
  assert notebook["metadata"]["kernelspec"]["name"] == "python3"
  ids = [cell["id"] for cell in notebook["cells"]]
  assert len(set(ids)) == len(ids)
  for cell in notebook["cells"]:
    assert cell["cell_type"] in ("code", "markdown")
    assert all(isinstance(line, str) for line in cell["source"])
    if cell["cell_type"] == "code":
      assert cell["outputs"] == [] and cell["execution_count"] is None
      compile("".join(cell["source"]), cell["id"], "exec")


def test_all_settings_are_in_one_cell(notebook):
  tagged = [
      c for c in notebook["cells"]
      if "parameters" in c["metadata"].get("tags", ())
  ]
  assert len(tagged) == 1
  names = {}
  exec("".join(tagged[0]["source"]), names)
  assert names.keys() >= SMALL.keys() | {"ON_DRIVE", "FOLDER", "RELEASED"}


def test_keywords_are_made_where_the_configuration_reads_them(
    notebook, monkeypatch
):
  monkeypatch.delenv("CTRL_JAX_MODEL", raising=False)
  text = "\n".join(sources(notebook))
  folder = re.search(r'keywords\.make\(\s*"([^"]+)"', text)[1]
  for source in auxiliary.get_config().data.sources:
    (path,) = source["path"]
    assert os.path.dirname(path) == folder


@pytest.fixture
def install(notebook, monkeypatch):
  """The cell's `install`, and the commands that it calls."""
  (source,) = (s for s in sources(notebook) if "def install" in s)
  names, calls = {}, []
  exec(source.replace("ROOT = install(PROJECT)", ""), names)

  def run(command, check=False):
    calls.append([str(word) for word in command])
    return subprocess.CompletedProcess(command, run.code)

  run.code = 0
  monkeypatch.setattr(subprocess, "run", run)
  monkeypatch.setattr(sys, "path", list(sys.path))
  return names["install"], calls, run


def test_installs_on_the_runtimes_own_jax(install, tmp_path):
  install, calls, _ = install
  assert install(str(tmp_path)) == tmp_path
  assert sys.path[0] == str(tmp_path)
  (pip,) = calls
  assert pip[1:4] == ["-m", "pip", "install"] and pip[-1] == str(tmp_path)
  constraints = pathlib.Path(pip[pip.index("--constraint") + 1]).read_text()
  for name in ("jax", "jaxlib", "numpy"):
    assert f"{name}=={importlib.metadata.version(name)}\n" in constraints
  assert "flax" not in constraints


def test_a_relative_folder_is_found_from_another_one(
    install, tmp_path, monkeypatch
):
  (tmp_path / "project").mkdir()
  monkeypatch.chdir(tmp_path)
  assert install[0]("project") == tmp_path / "project"
  assert sys.path[0] == str(tmp_path / "project")


def test_clones_an_address(install):
  install, calls, _ = install
  address = "https://example.com/a/b.git"
  install(address)
  assert calls[0][:2] == ["git", "clone"] and address in calls[0]


def test_an_install_that_fails_says_what_to_do(install, tmp_path):
  install, _, run = install
  run.code = 1
  with pytest.raises(RuntimeError, match="Change runtime type"):
    install(str(tmp_path))
  with pytest.raises(ValueError, match="PROJECT is the address"):
    install("https://github.com/OWNER/ctrl_jax.git")


def execute(tmp_path, settings):
  file = tmp_path / "settings.json"
  file.write_text(json.dumps(settings))
  return subprocess.run(
      [sys.executable, str(HERE / "run_notebook.py"), str(FILE), str(file)],
      capture_output=True, text=True,
      env=os.environ | {
          "PYTHONPATH": str(FILE.parents[1]), "MPLBACKEND": "Agg"
      },
  )


@pytest.mark.slow
def test_runs_and_goes_on_after_a_lost_runtime(tmp_path):
  """46 seconds of one core, and some less the second time."""
  fakes.write_export(tmp_path / "released")
  drive = tmp_path / "drive"
  settings = SMALL | dict(
      ON_DRIVE=True, FOLDER=str(drive), RELEASED=str(tmp_path / "released")
  )
  done = execute(tmp_path, settings)
  assert done.returncode == 0, done.stderr[-2000:]
  assert "step 4: perplexity" in done.stdout
  for text in ("--- optax", "In a shocking finding", "keyword 'optional',",
               "--- latent 3"):
    assert text in done.stdout
  assert "Resumed" not in done.stderr
  # Another runtime, the same Drive; trained for longer.
  done = execute(tmp_path, settings | dict(STEPS=6, RELEASED=""))
  assert done.returncode == 0, done.stderr[-2000:]
  assert "Resumed at step 4 of 6" in done.stderr
  assert "step 6: perplexity" in done.stdout
  assert {"demo", "keyword_4", "keyword_6", "cvae"} == {
      p.name for p in (drive / "runs").iterdir()
  }
