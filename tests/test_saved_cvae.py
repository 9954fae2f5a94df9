"""The CVAE from pairs to stories, as a user runs it."""

import json
import pathlib
import shutil

import numpy as np
import pytest

import ctrl_jax
from ctrl_jax import convert, errors, saved_cvae, train


@pytest.fixture(scope="module")
def runs(cvae_workdirs):
  return cvae_workdirs


def metrics(workdir):
  lines = (pathlib.Path(workdir) / "metrics.jsonl").read_text().splitlines()
  return [json.loads(line) for line in lines]


def test_metrics_are_logged_and_evaluated(runs):
  result, lines = runs["result"], metrics(runs["along"])
  assert result["kl"] > 0 and result["reconstruction"] > 0
  assert [x["train/beta"] for x in lines if "train/beta" in x] == [
      pytest.approx(0.01)
  ] * 3
  assert any("validation/kl" in x for x in lines)
  # A bound: the KL is in it.
  assert result["loss"] > 0 and "beta" not in result


def test_a_cvae_that_trained_its_decoder(runs):
  model = ctrl_jax.load(runs["along"])
  base = ctrl_jax.load(runs["base"])
  tables = [m.params["embedding"]["table"] for m in (model, base)]
  assert (tables[0] != tables[1]).any()
  means, log_variances = model.encode(
      ["the apple\n", ("the pear\n", "plum fig 3.")], "Text"
  )
  assert means.shape == log_variances.shape == (2, 4)
  # Alone as in a batch; and not the prior's.
  alone = model.encode(("the pear\n", "plum fig 3."), "Text")[0]
  np.testing.assert_allclose(means[1:], alone, atol=1e-5)
  prompts = ["the apple\n", "the fig\n"]
  options = dict(max_new_tokens=5, penalty=1.0)

  def ids(latent, **more):
    found = model.generate(prompts, "Text", latent=latent, **options, **more)
    return [[s.token_ids for s in samples] for samples in found]

  mean = ids("mean")
  assert mean == ids(model.encode(prompts, "Text")[0])
  assert ids(["the apple\n"])[0] == mean[0]
  assert len(ids("prior", num_samples=2)[0]) == 2
  assert ids("prior", seed=3) == ids("prior", seed=3)
  for ask in (lambda: model.score("apple"), lambda: model.logits([[1]])):
    with pytest.raises(errors.UserError, match="evaluation.latent"):
      ask()
  with pytest.raises(errors.UserError, match="latent='prior'"):
    model.generate(prompts, "Text", **options)
  with pytest.raises(errors.UserError, match=r"\[2, 4\]"):
    ids(np.zeros((2, 3)))
  with pytest.raises(errors.UserError, match="more than the encoder's 24"):
    model.encode("the apple " * 30, "Text")
  with pytest.raises(errors.UserError, match="load its workdir"):
    ctrl_jax.load(runs["base"], heads=[runs["along"]])
  with pytest.raises(errors.UserError, match="leave base out"):
    ctrl_jax.load(runs["along"], base=runs["base"])


def test_a_cvae_beside_a_frozen_decoder(runs, tmp_path):
  model = ctrl_jax.load(runs["beside"])
  base = ctrl_jax.load(runs["base"])
  np.testing.assert_array_equal(
      model.params["embedding"]["table"], base.params["embedding"]["table"]
  )
  call = lambda m, **kw: m.generate(
      "the apple\n", "Text", max_new_tokens=5, penalty=1.0, **kw
  )[0][0].token_ids
  assert call(model) == call(base)
  as_head = ctrl_jax.load(runs["base"], heads=[runs["beside"]])
  assert call(as_head, latent="mean") == call(model, latent="mean")
  with pytest.raises(errors.UserError, match="no latent"):
    call(base, latent="mean")
  with pytest.raises(errors.UserError, match="CVAE already"):
    model.set_cvae(saved_cvae.read(runs["beside"]))
  moved = shutil.copytree(runs["beside"], tmp_path / "moved")
  content = json.loads((moved / "config.json").read_text())
  content["cvae"]["latent_size"] = 5
  (moved / "config.json").write_text(json.dumps(content))
  with pytest.raises(errors.UserError, match="restore config.json"):
    ctrl_jax.load(moved)


def test_another_latent_is_another_run(runs):
  c = runs["config"].copy_and_resolve_references()
  c.cvae.latent_size = 5
  with pytest.raises(errors.UserError, match="cvae.latent_size was 4, is 5"):
    train.train(c, runs["along"])


def test_export_says_that_it_cannot(runs, tmp_path):
  for name in ("along", "beside"):
    with pytest.raises(errors.UserError, match="no export can hold"):
      convert.convert(runs[name], tmp_path / "out")
  assert not (tmp_path / "out").exists()
