"""What a path stands for; loading itself is tested with each kind of model."""

import json

import flax.linen as nn
import gpt2_folders
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ctrl_jax
from ctrl_jax import errors, loading, saved_cvae, saved_head
from ctrl_jax.models import cvae
from ctrl_jax.models.auxiliary import AuxiliaryConfig
from ctrl_jax.models.cvae_config import CVAEConfig


def test_a_plain_path_is_a_model(tmp_path):
  assert loading.find(tmp_path) == loading.Found(tmp_path, None, {}, None)


def test_heads_beside_an_export_and_given_ones(tmp_path):
  for name in ("b", "a"):
    (tmp_path / "heads" / name).mkdir(parents=True)
  found = loading.find(tmp_path, {"mine": "runs/x"})
  assert found.heads == {
      "a": tmp_path / "heads" / "a", "b": tmp_path / "heads" / "b",
      "mine": "runs/x",
  }
  # A given one counts in place of one of the same name.
  assert loading.find(tmp_path, {"a": "runs/a"}).heads["a"] == "runs/a"


@pytest.mark.parametrize("path", ["none/here", "/none/here", "~/none/here"])
def test_nothing_there(path):
  with pytest.raises(errors.UserError, match="none/here"):
    ctrl_jax.load(path)


@pytest.mark.parametrize("data", [3, "x", None, {}, {"folder": 3}])
def test_a_workdir_that_names_no_data_set(tmp_path, data):
  (tmp_path / "config.json").write_text(json.dumps(dict(data=data)))
  with pytest.raises(errors.UserError, match="does not say which data set"):
    loading.find_data(tmp_path, "")


def test_a_head_that_is_not_there(tmp_path):
  with pytest.raises(errors.UserError, match="nowhere"):
    loading.read_head(tmp_path / "nowhere")


def test_an_auxiliary_and_a_latent_beside_one_model(tmp_path):
  """One call runs base, auxiliary and CVAE."""
  folders = {name: tmp_path / name for name in ("base", "aux", "latent")}
  for folder in folders.values():
    folder.mkdir()
  base, base_params = gpt2_folders.write(folders["base"])
  hash_ = saved_head.base_hash(base, base_params)
  head = AuxiliaryConfig(
      base, "independent", attribute_length=4, d_model=8, d_ff=8, num_layers=1,
      num_heads=2,
  )
  own = nn.unbox(head.init_boxed(jax.random.key(4)))
  own["final_norm"] = jax.tree.map(lambda x: x + 2.0, own["final_norm"])
  saved_head.Head(head, own, hash_).save(folders["aux"])
  config = CVAEConfig(base, 1, 2, injections=("input",))
  params = nn.unbox(cvae.init_boxed(config, base_params, jax.random.key(5)))
  params["input"] = jax.tree.map(lambda x: 50 * x, params["input"])
  saved_cvae.SavedCVAE(config, params).save(folders["latent"], hash_)

  model = ctrl_jax.load(
      folders["base"], heads=[folders["aux"], folders["latent"]]
  )
  assert set(model.heads) == {"aux"} and model.cvae is not None
  z = np.array([3.0, -2.0], np.float32)

  def ids(weight, latent):
    (found,), = model.generate(
        "ab", latent=latent, attribute={"aux": "x"}, weight=weight,
        max_new_tokens=6, penalty=1.0,
    )
    return found.token_ids

  found = ids(1.0, z)
  assert found != ids(0.0, z) and found != ids(1.0, -z)
  # Without the auxiliary's logits, the CVAE's are the largest.
  tokens = [*model.tokenizer.encode("ab"), *ids(0.0, z)]
  logits = cvae.logits(
      config, params, base_params, jnp.asarray([tokens]), z[None]
  )[0]
  assert tokens[2:] == logits[1:-1].argmax(-1).tolist()
