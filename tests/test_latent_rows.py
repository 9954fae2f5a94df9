"""Models beside the CVAE itself, from training to text and export."""

import jax
import numpy as np
import pytest

import ctrl_jax
from ctrl_jax import convert, errors, latent_rows, prepare, saved_head, train
from ctrl_jax.evaluation import held_out, likelihood

PROMPTS = ["the apple\n", "the fig\n"]
OPTIONS = dict(max_new_tokens=5, penalty=1.0)
FIELDS = {
    # Pseudo self-attention over the prompt, without a latent.
    "source": dict(
        prior="none", injections=("encoder_sequence",), source_length=12,
        bag_of_words=0.0,
        freeze_steps=0,
    ),
    # A frozen base and an auxiliary that reads z.
    "auxiliary": dict(
        injections=("auxiliary",), train_base=False, freeze_steps=0
    ),
}


@pytest.fixture(scope="module")
def runs(cvae_workdirs, tmp_path_factory):
  folder = tmp_path_factory.mktemp("latent_rows")
  found = dict(base=cvae_workdirs["base"])
  for name, fields in FIELDS.items():
    c = cvae_workdirs["config"].copy_and_resolve_references()
    c.cvae.update(fields)
    c.auxiliary.update(
        dict(d_model=8, d_ff=16, num_layers=1, num_heads=2, reused_layers=1)
    )
    found[name] = str(folder / name)
    found[f"{name} result"] = train.train(c, found[name])
    found["data"] = prepare.prepare(c)
  return found


def ids(model, **options):
  found = model.generate(PROMPTS, "Text", **OPTIONS, **options)
  return [[s.token_ids for s in samples] for samples in found]


@pytest.mark.parametrize("name", FIELDS)
def test_exported_and_loaded_it_writes_the_same(runs, tmp_path, name):
  options = dict(latent="mean") if name == "auxiliary" else {}
  model = ctrl_jax.load(runs[name])
  exported = convert.convert(runs[name], tmp_path / "out")
  assert ids(ctrl_jax.load(exported), **options) == ids(model, **options)
  assert not saved_head.is_head(runs[name]) and not model.heads


def test_a_prompt_is_the_source(runs):
  model = ctrl_jax.load(runs["source"])
  whole = ids(model, num_samples=2)
  alone = model.generate(PROMPTS[1], "Text", **OPTIONS)[0][0].token_ids
  assert whole[1] == [alone, alone]
  rows = latent_rows.source_rows(
      model.cvae.config, model.tokenizer, PROMPTS, ["Text"] * 2, 3
  )
  assert rows.shape == (2, 3, 13) and rows.dtype == np.int32
  first = model.tokenizer.code_ids("Text") + model.tokenizer.encode(PROMPTS[0])
  assert rows[0, 2, 0] == len(first)
  assert rows[0, 2, 1 : 1 + len(first)].tolist() == first


def test_its_perplexity_is_what_training_says(runs):
  """By the library on records as by the loop's evaluation."""
  model = ctrl_jax.load(runs["source"])
  texts = held_out.of_records(runs["data"], "validation", 8)
  nll = likelihood.nll(model, texts)
  tokens = np.array([len(t) for t in texts.targets()])
  np.testing.assert_allclose(
      np.exp(nll.sum() / tokens.sum()), runs["source result"]["perplexity"],
      rtol=1e-4,
  )
  assert runs["source result"]["source_cut"] == 0


def test_a_frozen_base_under_an_auxiliarys_latent(runs):
  model = ctrl_jax.load(runs["auxiliary"])
  base = ctrl_jax.load(runs["base"])
  assert ids(model) == ids(base)  # Without a latent.
  config, params = model.cvae.config, dict(model.cvae.params)
  assert config.auxiliary.latent_size == 4
  # After three steps it hardly moves anything: as if after more.
  own = dict(params["auxiliary"])
  kernel = 30 * jax.random.normal(jax.random.key(1), (8, 16))
  own["output"] = own["output"] | dict(kernel=kernel)
  model.generator.set_latent(config, params | dict(auxiliary=own))
  z = 3 * np.eye(2, 4, dtype=np.float32)
  assert ids(model, latent=z) != ids(base)
  assert ids(model, latent=z)[0] == ids(model, latent=z[[0, 0]])[0]


def test_bad_input(runs):
  source = ctrl_jax.load(runs["source"])
  with pytest.raises(errors.UserError, match="cvae.source_length"):
    source.generate("the apple fig pear plum cherry\n" * 3, "Text")
  for call in (
      lambda: ids(source, latent="prior"),
      lambda: source.encode("the fig\n", "Text"),
  ):
    with pytest.raises(errors.UserError, match="no latent"):
      call()
  with pytest.raises(errors.UserError, match="likelihoods without it"):
    source.score("the fig", "Text")
