"""The CVAE's experiment from pairs to tables, on tiny models."""

import json

import command_runs
import cvae_runs
import ml_collections
import pytest

from ctrl_jax import config as config_lib
from ctrl_jax import errors, prepare
from ctrl_jax import experiment as command
from ctrl_jax.experiments import cvae_methods, lines, stages

pytestmark = pytest.mark.slow

# What the file of the trained methods holds.
_CONFIG = """
import cvae_runs
def get_config(name):
  return cvae_runs.CONFIGS[name].copy_and_resolve_references()
"""


def source(file, **fields):
  return config_lib.source(
      "jsonl", "Text", path=file, **dict(
          template="{prompt}\n", target="{text}"
      ) | fields
  )


def configurations(base_config, base, folder):
  """A configuration a method, three steps each."""
  made = {}
  file = base_config.data.sources[0]["path"][0]

  def make(name, task="cvae", **cvae):
    c = base_config.copy_and_resolve_references()
    c.task.name = task
    c.train.init_from = base
    c.train.steps = 3
    c.cvae.update(dict(num_layers=1, latent_size=4, beta_period=2) | cvae)
    c.auxiliary.update(dict(
        d_model=8, d_ff=16, num_layers=1, num_heads=2, reused_layers=1
    ))
    made[name] = c
    return c

  make("finetune", "language_model")
  make("cvae")
  make(
      "psa", prior="none", injections=("encoder_sequence",), source_length=16
  )
  fusion = make("fusion", "auxiliary_tuning")
  fusion.auxiliary.combination = "gate"
  fusion.auxiliary.attribute_length = fusion.data.attribute_length = 16
  fusion.data.folder = str(folder / "attributes")
  fusion.data.sources = (source(file, attribute="{prompt}"),)
  vae = make("vae", prior="standard")
  vae.data.folder = str(folder / "texts")
  vae.data.sources = (source(file, template=""),)
  for c in (fusion, vae):
    c.tokenizer.path = f"{base_config.data.folder}/tokenizer"
  return made


@pytest.fixture(scope="module")
def made(tmp_path_factory):
  folder = tmp_path_factory.mktemp("cvae_experiment")
  base_config, base = cvae_runs.train_base(folder, test_fraction=0.3)
  cvae_runs.CONFIGS = configurations(base_config, base, folder)
  prepare.prepare(cvae_runs.CONFIGS["cvae"])
  (folder / "methods.py").write_text(_CONFIG)
  c = ml_collections.ConfigDict()
  c.update(dict(
      kind="cvae", base=base, data=base_config.data.folder, code="Text",
      workdirs=str(folder / "methods"), steps=0, fractions=(1.0,),
      bound_texts=6, latents=2, texts=8, num_prompts=6, num_tokens=5,
      batch_size=6, rank_stories=4, rank_prompts=3, rank_latents=2,
      control_pairs=4, train_texts=0, label_texts=0,
  ))
  of = lambda name, **fields: dict(
      name=name, config=f"{folder}/methods.py:{name}", **fields
  )
  c.methods = (
      dict(name="base"), of("finetune", seeds=(0, 1)), of("cvae"), of("psa"),
      of("fusion", attribute=True), of("vae", label="{fruit}"),
  )
  return folder, c


@pytest.fixture(scope="module")
def results(made):
  folder, c = made
  assert cvae_methods.Experiment(c, folder / "out").run()
  return folder / "out"


@pytest.mark.parametrize("latents", [0, 1, 7, 2.0])
def test_samples_come_in_pairs(made, tmp_path, latents):
  folder, c = made
  c = ml_collections.ConfigDict(c.to_dict() | dict(latents=latents))
  says = f"latents={latents} must be an even number"
  with pytest.raises(errors.UserError, match=says):
    cvae_methods.Experiment(c, tmp_path / "out").run()
  assert not (tmp_path / "out").exists()


def test_lines_have_what_their_methods_have(results):
  found = lines.collect(results)
  assert {k: [(x["step"], x["seed"]) for x in v] for k, v in found.items()} == {
      "base": [(0, 0)], "finetune": [(3, 0), (3, 1)], "cvae": [(3, 0)],
      "psa": [(3, 0)], "fusion": [(3, 0)], "vae": [(3, 0)],
  }
  for name, (line, *_) in found.items():
    latent = name in ("cvae", "vae")
    assert line["perplexity"]["value"] > 1, name
    assert (line["bound"] == "exact") != latent
    assert ("information" in line) == latent
    assert ("control" in line) == (name == "cvae")
    assert ("rouge" in line) == ("prompt_rank" in line) == (name != "vae")
  # All count the same targets of the same stories.
  tokens = found["cvae"][0]["bounds"]["tokens"]
  assert tokens == found["vae"][0]["bounds"]["tokens"] or tokens > 0
  labels = found["vae"][0]["labels"]
  assert set(labels) == {"latent", "base_states", "lsa", "tf_idf"}
  assert labels["latent"]["test"] == labels["lsa"]["test"] > 8
  control = found["cvae"][0]["control"]
  assert set(control) == {"prior", "posterior"}
  assert len(control["prior"]["effect"]) == 3
  assert found["finetune"][0]["flops"] < found["cvae"][0]["flops"]


def test_figures_are_drawn(results):
  assert {p.name for p in results.glob("*.png")} == {
      f"{name}-0-{what}.png" for name in ("cvae", "vae")
      for what in ("t_sne", "kl_by_dimension", "training")
  } | ({"control.png"} if (results / "control.png").exists() else set())


def test_the_command_goes_on_and_reports(made, results, capsys):
  folder, c = made
  cvae_runs.EXPERIMENT = c
  file = folder / "experiment.py"
  file.write_text("import cvae_runs\ndef get_config():\n"
                  "  return cvae_runs.EXPERIMENT\n")
  (results / "base-0.jsonl").unlink()
  before = (results / "cvae-0.jsonl").read_bytes()
  assert not command_runs.run(
      command, f"--experiment={file}", f"--output={results}"
  )
  out = capsys.readouterr().out
  assert (results / "base-0.jsonl").exists()
  assert (results / "cvae-0.jsonl").read_bytes() == before
  assert (results / "tables.md").read_text() == out
  assert (results / "control.png").read_bytes()[:4] == b"\x89PNG"
  samples = json.loads((results / "samples.json").read_text())
  assert len(samples["psa"]["examples"]) == 6
  assert len(samples["cvae"]["control"]["posterior"]) == 4


def test_a_label_is_of_a_latent(made, tmp_path):
  _, c = made
  run = cvae_methods.Experiment(c, tmp_path)
  with pytest.raises(errors.UserError, match="a label, which is of a latent"):
    run.measure(
        cvae_methods.Method("base", label="{fruit}"),
        stages.Trained(None, None, None, {}), 0,
    )
