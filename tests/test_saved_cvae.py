"""The CVAE from pairs to stories, as a user runs it."""

import json
import pathlib
import shutil

import cvae_runs
import flax.linen as nn
import gpt2_folders
import jax
import numpy as np
import pytest
import safetensors.numpy
import tiny_runs

import ctrl_jax
from configs import cvae as own_pairs
from ctrl_jax import config as config_lib
from ctrl_jax import (
    convert,
    errors,
    prepare,
    saved_cvae,
    saved_latents,
    saved_model,
    train,
)
from ctrl_jax.models import cvae, transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae_config import CVAEConfig


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
    with pytest.raises(errors.UserError, match="evaluation.likelihood"):
      ask()
  with pytest.raises(errors.UserError, match="latent='prior'"):
    model.generate(prompts, "Text", **options)
  with pytest.raises(errors.UserError, match=r"\[2, 4\]"):
    ids(np.zeros((2, 3)))
  with pytest.raises(errors.UserError, match="more than the 24 that"):
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
  with pytest.raises(errors.UserError, match="not what its configuration"):
    ctrl_jax.load(moved)


def test_all_that_is_as_large_as_the_vocabulary_is_saved_without_padding(
    tmp_path,
):
  base = TransformerConfig(
      vocab_size=29, d_model=8, d_ff=16, num_layers=1, num_heads=2,
      max_length=8, dropout=0.0, dtype="float32", vocab_multiple=8,
  )
  config = CVAEConfig(
      base, num_layers=1, latent_size=3, injections=("softmax",),
      predicts_words=True, reads_words=True,
  )

  @jax.jit
  def init():
    boxed = transformer.init_boxed(base, jax.random.key(0))
    own = nn.unbox(cvae.init_boxed(config, boxed, jax.random.key(1)))
    return nn.unbox(boxed), jax.tree.map(lambda x: x + 0.1, own)

  base_params, params = init()
  saved_cvae.SavedCVAE(config, params).save(tmp_path, "hash")
  found = saved_cvae.read(tmp_path)
  assert found.config.reads_words and found.config.base.vocab_multiple == 1
  assert found.params["words"]["kernel"].shape == (29, 3)
  assert found.params["bag_of_words"]["kernel"].shape == (3, 29)
  ids = np.random.default_rng(0).integers(0, 29, (2, 8))
  of = lambda config, own: cvae.encode(
      config, own, base_params, "posterior", ids, np.array([8, 5])
  )
  jax.tree.map(
      lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5),
      of(config, params), of(found.config, found.params),
  )


def test_over_gpt2_and_stopped_by_a_loss_that_is_not_finite(
    tmp_path, monkeypatch
):
  """Begins as the folder's model, and ends with one line and its checkpoint."""
  (tmp_path / "gpt2").mkdir()
  gpt2, params = gpt2_folders.write(tmp_path / "gpt2")
  cvae_runs.write_pairs(tmp_path / "pairs.jsonl")
  monkeypatch.setenv("CTRL_JAX_MODEL", str(tmp_path / "gpt2"))
  monkeypatch.delenv("CTRL_JAX_CODE", raising=False)
  c = own_pairs.get_config()
  c.data.update(dict(folder=str(tmp_path / "set"), workers=1))
  c.data.sources = tuple(
      dict(source, path=(str(tmp_path / "pairs.jsonl"),), split="")
      for source in c.data.sources[:1]
  )
  # Beta is 0, then so high that float32 cannot hold what it makes of the KL.
  c.cvae.update(dict(
      latent_size=4, beta_low=0.0, beta_high=3e38, beta_period=8,
      kl_scale="original",
  ))
  c.train.update(dict(
      steps=8, log_every=1, checkpoint_every=2, eval_every=8, eval_sequences=8,
      stop_after_bad_steps=2,
  ))
  c.data.sequence_length = 24
  prepare.prepare(c)
  with pytest.raises(errors.UserError, match="not finite 2 steps in a row"):
    train.train(c, str(tmp_path / "run"))
  model = ctrl_jax.load(tmp_path / "run")
  assert (model.config, model.window) == (gpt2, 24)
  same = lambda x, y: np.testing.assert_array_equal(x, y)
  jax.tree.map(same, model.params, params)
  encoder = model.cvae.params["encoder"]["layers"]
  jax.tree.map(lambda x, y: same(x, y[:1]), encoder, params["layers"])
  pooled = model.cvae.params["posterior"]["mean"]["bias"]
  assert pooled.any() and np.isfinite(pooled).all()
  assert model.generate(
      "the fig\n", latent="prior", rules="cvae", max_new_tokens=2
  )


def test_another_latent_is_another_run(runs):
  c = runs["config"].copy_and_resolve_references()
  c.cvae.latent_size = 5
  with pytest.raises(errors.UserError, match="cvae.latent_size was 4, is 5"):
    train.train(c, runs["along"])


@pytest.mark.parametrize("name", ["along", "beside"])
def test_an_export_is_the_same_model(runs, tmp_path, name):
  folder = convert.convert(runs[name], tmp_path / "out")
  assert {p.name for p in (folder / "cvae").iterdir()} == {
      "cvae.json", "cvae.safetensors"
  }
  ours, theirs = ctrl_jax.load(runs[name]), ctrl_jax.load(folder)
  assert theirs.cvae.trained_along == (name == "along")
  assert ours.cvae.window == theirs.cvae.window == 24
  assert saved_latents.model_hash(ours) == saved_latents.model_hash(theirs)
  prompts = ["the apple\n", "the fig\n"]
  options = dict(max_new_tokens=5, penalty=1.0, latent="prior", seed=2)
  ids = lambda m: [s[0].token_ids for s in m.generate(
      prompts, "Text", **options
  )]
  assert ids(ours) == ids(theirs)
  again = convert.convert(folder, tmp_path / "again")
  assert ids(ctrl_jax.load(again)) == ids(ours)
  card = (folder / "README.md").read_text()
  assert ("latent=" in card) == (name == "along")


def test_an_export_in_half_precision_and_parts_that_do_not_fit(runs, tmp_path):
  half = convert.convert(runs["along"], tmp_path / "half", dtype="bfloat16")
  model = ctrl_jax.load(half)
  assert model.generate(
      "the fig\n", "Text", latent="mean", max_new_tokens=3
  )[0][0].token_ids
  # The latent of one decoder beside another.
  full = convert.convert(runs["along"], tmp_path / "full")
  shutil.rmtree(full / "cvae")
  shutil.copytree(half / "cvae", full / "cvae")
  with pytest.raises(errors.UserError, match="same shape with other"):
    ctrl_jax.load(full)
  with pytest.raises(errors.UserError, match="same shape with other"):
    ctrl_jax.load(runs["base"], heads=[half / "cvae"])
  (half / "cvae" / "cvae.safetensors").write_bytes(b"short")
  with pytest.raises(errors.UserError, match="copy it again"):
    ctrl_jax.load(half)
  (half / "cvae" / "cvae.json").write_text("{}")
  with pytest.raises(errors.UserError, match="damaged"):
    ctrl_jax.load(half)


def test_an_export_without_its_latent(runs, tmp_path):
  """The decoder alone means nothing where it was trained along."""
  along = convert.convert(runs["along"], tmp_path / "along")
  (along / "cvae").rename(tmp_path / "elsewhere")
  for read in (ctrl_jax.load, lambda x: convert.convert(x, tmp_path / "out")):
    with pytest.raises(errors.UserError, match="'cvae' is not there: copy"):
      read(along)
  # Neither does another run begin with it.
  c = config_lib.default()
  c.data.folder = runs["config"].data.folder
  tiny_runs.shrink(c, 24, steps=2)
  c.train.init_from = str(along)
  with pytest.raises(errors.UserError, match="'cvae' is not there: copy"):
    train.train(c, str(tmp_path / "run"))
  (tmp_path / "elsewhere").rename(along / "cvae")
  assert ctrl_jax.load(along).cvae is not None
  extra = along / "ctrl_jax.json"
  extra.write_text(json.dumps(dict(needs_latent="yes")))
  with pytest.raises(errors.UserError, match="needs_latent.*Restore the file"):
    ctrl_jax.load(along)
  # Beside a frozen one, it is the model that was there before.
  beside = convert.convert(runs["beside"], tmp_path / "beside")
  shutil.rmtree(beside / "cvae")
  assert ctrl_jax.load(beside).score("apple", code="Text")


@pytest.mark.parametrize("damage", ["integers", "trained_along"])
def test_parts_of_another_type(runs, tmp_path, damage):
  folder = shutil.copytree(
      convert.convert(runs["along"], tmp_path / "out"), tmp_path / "copy"
  )
  file = folder / "cvae" / "cvae.safetensors"
  if damage == "integers":
    params = safetensors.numpy.load_file(file)
    name = sorted(params)[0]
    params[name] = params[name].astype(np.int32)
    safetensors.numpy.save_file(params, file)
  else:
    content = json.loads((folder / "cvae" / "cvae.json").read_text())
    (folder / "cvae" / "cvae.json").write_text(
        json.dumps(content | dict(trained_along="yes"))
    )
  with pytest.raises(errors.UserError, match="not finite floats|_along='yes'"):
    ctrl_jax.load(folder)


def test_padding_of_the_vocabulary_is_not_exported(tmp_path):
  base = TransformerConfig(
      vocab_size=5, d_model=4, d_ff=8, num_layers=1, num_heads=2, max_length=4,
      vocab_multiple=8,
  )
  config = cvae.CVAEConfig(base, 1, 2, injections=("softmax",))
  boxed = transformer.init_boxed(base, jax.random.key(0))
  params = nn.unbox(cvae.init_boxed(config, boxed, jax.random.key(1)))
  assert params["softmax"]["kernel"].shape == (2, 8)
  saved_cvae.SavedCVAE(config, params, window=3).save(tmp_path, "hash")
  found = saved_cvae.read(tmp_path)
  assert found.window == 3
  assert found.params["softmax"]["kernel"].shape == (2, 5)
  np.testing.assert_array_equal(
      found.params["softmax"]["kernel"], params["softmax"]["kernel"][:, :5]
  )
  assert found.base_hash == "hash" and not found.trained_along


def test_fields_that_earlier_versions_did_not_write(tmp_path):
  base = TransformerConfig(
      vocab_size=5, d_model=4, d_ff=8, num_layers=1, num_heads=2, max_length=4
  )

  def save(**options):
    config = cvae.CVAEConfig(base, 1, 2, **options)
    boxed = transformer.init_boxed(base, jax.random.key(0))
    params = nn.unbox(cvae.init_boxed(config, boxed, jax.random.key(1)))
    saved_cvae.SavedCVAE(config, params).save(tmp_path, "hash")
    file = tmp_path / "cvae.json"
    content = json.loads(file.read_text())
    for name in ("source_length", "shared_projection", "scale_head"):
      del content["cvae"][name]
    del content["window"]
    file.write_text(json.dumps(content))
    return config

  config = save()
  assert saved_cvae.read(tmp_path).config == config
  save(prior="none", injections=("encoder_sequence",), source_length=3)
  with pytest.raises(errors.UserError, match="damaged .*source_length"):
    saved_cvae.read(tmp_path)


def test_ctranslate2_knows_no_latent(runs, tmp_path):
  with pytest.raises(errors.UserError, match="trained with a latent"):
    convert.to_ctranslate2(runs["along"], tmp_path / "out")
  beside = convert.convert(runs["beside"], tmp_path / "beside")
  for path in (runs["beside"], beside):
    with pytest.raises(errors.UserError, match="has a latent, .* base alone"):
      convert.to_ctranslate2(path, tmp_path / "out")
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["along", "beside"])
def test_a_run_of_a_cvae_is_no_language_model(runs, name):
  with pytest.raises(errors.UserError, match="run of a CVAE, .*: export it"):
    saved_model.read(runs[name])
  with pytest.raises(errors.UserError, match="run of a CVAE, .*: export it"):
    ctrl_jax.load(runs["beside"], base=runs[name])
