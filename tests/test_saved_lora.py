"""LoRA from the data set to samples, as a user runs it."""

import json
import shutil

import auxiliary_runs
import jax
import numpy as np
import pytest

import ctrl_jax
from ctrl_jax import convert, errors, prepare, train
from ctrl_jax.training import checkpoint

pytestmark = pytest.mark.slow

@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  """A base and LoRA beside it, the keyword as prefix, a few steps each."""
  return auxiliary_runs.train_beside(
      auxiliary_runs.train_base(tmp_path_factory.mktemp("lora")), "keyword",
      "lora", "{keyword}: {prefix}", lora=dict(rank=2),
      train=dict(sample_tokens=4, sample_prompts=("soon: the",)),
  )


@pytest.fixture(scope="module")
def model(runs):
  return ctrl_jax.load(runs["workdir"])


def test_the_base_is_not_in_the_checkpoint(runs):
  params = checkpoint.load_params(runs["workdir"])
  assert set(params) == {"lora"}
  assert np.abs(params["lora"]["layers"]["query"]["b"]).max() > 0


def test_samples_on_the_way_are_of_the_merged_model(runs):
  text = (runs["folder"] / "keyword" / "samples.txt").read_text()
  assert "[Text] soon: the" in text


def test_load_gives_the_merged_model(runs, model):
  base = ctrl_jax.load(runs["base"])
  params = checkpoint.load_params(runs["workdir"])["lora"]["layers"]
  for name in ("query", "value"):
    addition = 16.0 / 2 * np.matmul(params[name]["a"], params[name]["b"])
    np.testing.assert_allclose(
        model.params["layers"][name]["kernel"],
        base.params["layers"][name]["kernel"] + addition, atol=1e-6,
    )
  np.testing.assert_array_equal(
      model.params["layers"]["key"]["kernel"],
      base.params["layers"]["key"]["kernel"],
  )
  assert model.codes == ("Text",) and not model.heads
  assert model.generate("soon: the", "Text", max_new_tokens=4)[0][0].text


def test_resuming_is_bit_identical(runs, tmp_path):
  stopped = str(tmp_path / "stopped")
  short = runs["config"].copy_and_resolve_references()
  short.train.steps = 3
  train.train(short, stopped)
  train.train(runs["config"], stopped)
  jax.tree.map(
      np.testing.assert_array_equal, checkpoint.load_params(stopped),
      checkpoint.load_params(runs["workdir"]),
  )


def test_convert_exports_it_merged(runs, model, tmp_path):
  folder = convert.convert(runs["workdir"], tmp_path / "out")
  exported = ctrl_jax.load(folder)
  jax.tree.map(np.testing.assert_array_equal, exported.params, model.params)


def test_another_base_is_refused(runs, tmp_path):
  other = runs["config"].copy_and_resolve_references()
  other.task.name = "language_model"
  other.train.init_from = ""
  other.train.steps = 1
  other.data.folder = str(runs["folder"] / "base_data")
  train.train(other, str(tmp_path / "other"))
  with pytest.raises(errors.UserError, match="their hashes differ"):
    ctrl_jax.load(runs["workdir"], base=str(tmp_path / "other"))


def test_a_base_that_is_gone(runs, model, tmp_path):
  moved = shutil.copytree(runs["workdir"], tmp_path / "moved")
  content = json.loads((moved / "config.json").read_text())
  content["train"]["init_from"] = str(tmp_path / "gone")
  (moved / "config.json").write_text(json.dumps(content))
  with pytest.raises(errors.UserError, match="--base"):
    ctrl_jax.load(moved)
  found = ctrl_jax.load(moved, base=runs["base"])
  jax.tree.map(np.testing.assert_array_equal, found.params, model.params)
  with pytest.raises(errors.UserError, match="none of them"):
    ctrl_jax.load(runs["base"], base=runs["base"])


def test_damage_is_named(runs, tmp_path):
  moved = shutil.copytree(runs["workdir"], tmp_path / "moved")
  content = json.loads((moved / "config.json").read_text())
  content["lora"]["rank"] = 3
  (moved / "config.json").write_text(json.dumps(content))
  with pytest.raises(errors.UserError, match="layers/query/a is"):
    ctrl_jax.load(moved)


def test_what_training_refuses(runs, tmp_path):
  c = runs["config"].copy_and_resolve_references()
  c.train.init_from = ""
  with pytest.raises(errors.UserError, match="init_from"):
    train.train(c, str(tmp_path / "run"))
  grown = runs["config"].copy_and_resolve_references()
  grown.data.folder = str(tmp_path / "grown")
  grown.data.sources = (dict(grown.data.sources[0], code="Other"),)
  with pytest.raises(errors.UserError, match="Other|no new codes"):
    prepare.prepare(grown)
