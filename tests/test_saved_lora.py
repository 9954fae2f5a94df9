"""LoRA from the data set to samples, as a user runs it."""

import json
import shutil

import jax
import numpy as np
import pytest

import ctrl_jax
from ctrl_jax import config as config_lib
from ctrl_jax import convert, errors, prepare, train
from ctrl_jax.training import checkpoint

pytestmark = pytest.mark.slow

WORDS = "apple pear plum cherry grape melon fig lemon".split()
KEYWORDS = ("however", "soon", "in fact")


def triples():
  for i in range(120):
    pick = lambda k, i=i: WORDS[(i * k + k) % 8]
    yield dict(
        keyword=KEYWORDS[i % 3], prefix=f"the {pick(1)}",
        text=f" and {pick(2)} {KEYWORDS[i % 3]} fell on {pick(3)}.",
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  """A base and LoRA beside it, the keyword as prefix, a few steps each."""
  folder = tmp_path_factory.mktemp("lora")
  file = folder / "triples.jsonl"
  file.write_text("".join(json.dumps(row) + "\n" for row in triples()))
  c = config_lib.default()
  c.data.sources = (
      config_lib.source("jsonl", "Text", path=str(file),
                        template="{prefix}{text}"),
  )
  c.data.folder = str(folder / "base_data")
  c.data.sequence_length = 24
  c.data.validation_fraction = 0.1
  c.data.workers = 1
  c.tokenizer.vocab_size = 120
  c.model.update(
      dict(d_model=16, d_ff=32, num_layers=2, num_heads=2, max_length=24)
  )
  c.optimizer.warmup_steps = 2
  c.train.update(dict(
      steps=4, batch_size=8, eval_every=2, checkpoint_every=2, log_every=1,
      eval_sequences=8, sample_tokens=0,
  ))
  prepare.prepare(c)
  base = str(folder / "base")
  train.train(c, base)
  own = c.copy_and_resolve_references()
  own.data.folder = str(folder / "lora_data")
  own.data.sources = (
      config_lib.source(
          "jsonl", "Text", path=str(file), template="{keyword}: {prefix}",
          target="{text}",
      ),
  )
  own.tokenizer.path = str(folder / "base_data" / "tokenizer")
  own.task.name = "lora"
  own.lora.rank = 2
  own.train.init_from = base
  own.train.sample_tokens = 4
  own.train.sample_prompts = ("soon: the",)
  prepare.prepare(own)
  workdir = str(folder / "keyword")
  train.train(own, workdir)
  return dict(folder=folder, base=base, workdir=workdir, config=own)


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
  short.train.steps = 2
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
