"""Auxiliary Tuning from the data set to samples, as a user runs it."""

import dataclasses
import json
import shutil

import auxiliary_runs
import jax
import numpy as np
import pytest
import safetensors.numpy

import ctrl_jax
from ctrl_jax import convert, errors, saved_head, saved_model, train

# The head has hardly been trained: by such a weight it decides alone. Below 0,
# for what it has learned most is what the base says anyway.
_LARGE = -4096.0


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  return auxiliary_runs.make(tmp_path_factory.mktemp("auxiliary"))



@pytest.fixture(scope="module")
def model(runs):
  return ctrl_jax.load(runs["head"])


def changed(config, section="train", **fields):
  c = config.copy_and_resolve_references()
  c[section].update(fields)
  return c


def test_resuming_is_bit_identical_and_the_base_is_not_in_the_checkpoint(
    runs, tmp_path
):
  stopped = str(tmp_path / "stopped")
  train.train(changed(runs["config"], steps=3), stopped)
  train.train(runs["config"], stopped)
  a, b = saved_head.read(stopped), saved_head.read(runs["head"])
  jax.tree.map(np.testing.assert_array_equal, a.params, b.params)
  assert set(a.params) == {
      "final_norm", "input", "input_norm", "layers", "output", "segments"
  }
  assert np.abs(a.params["output"]["kernel"]).max() > 0
  size = sum(
      p.stat().st_size for p in (tmp_path / "stopped/checkpoints").rglob("*")
  )
  base = sum(
      p.stat().st_size
      for p in (runs["folder"] / "base/checkpoints/6").rglob("*")
  )
  assert size < 3 * base  # Three checkpoints of an auxiliary.


def test_loading_a_head_brings_its_base(runs, model):
  assert list(model.heads) == ["keyword"]
  head = model.heads["keyword"]
  assert head.attributes == tuple(sorted(auxiliary_runs.KEYWORDS))
  assert head.attribute_dropout == 0.2
  base = ctrl_jax.load(runs["base"])
  jax.tree.map(np.testing.assert_array_equal, base.params, model.params)


def test_generate_with_an_attribute(runs, model):
  options = dict(max_new_tokens=8, penalty=1.0)
  text = lambda **kw: model.generate(
      ["the apple", "the fig and"], "Text", **options, **kw
  )
  ids = lambda results: [[s.token_ids for s in r] for r in results]
  alone = ids(ctrl_jax.load(runs["base"]).generate(
      ["the apple", "the fig and"], "Text", **options
  ))
  assert ids(text()) == alone
  assert ids(text(attribute="soon", weight=0.0)) == alone
  soon = ids(text(attribute="soon", weight=_LARGE))
  assert soon != alone
  assert ids(text(attribute=["soon", "soon"], weight=_LARGE)) == soon
  mixed = ids(text(attribute=["soon", "in fact"], weight=_LARGE))
  assert mixed[0] == soon[0]
  named = text(attribute={"keyword": "soon"}, weight={"keyword": _LARGE})
  assert ids(named) == soon
  assert ids(text(attribute="soon", guidance=1.0, weight=_LARGE)) == soon
  guided = ids(text(attribute="soon", guidance=2.0, weight=_LARGE))
  assert guided != alone


def test_several_heads_over_one_base(runs):
  model = ctrl_jax.load(
      runs["base"], heads={"a": runs["head"], "b": runs["head"]}
  )
  one = ctrl_jax.load(runs["head"])
  options = dict(max_new_tokens=8, penalty=1.0)
  half = model.generate(
      "the apple", "Text", attribute={"a": "soon", "b": "soon"},
      weight=_LARGE / 2, **options,
  )
  whole = one.generate(
      "the apple", "Text", attribute="soon", weight=_LARGE, **options
  )
  assert half[0][0].token_ids == whole[0][0].token_ids
  with pytest.raises(errors.UserError, match="2 heads"):
    model.generate("the", "Text", attribute="soon")


def test_a_head_alone_on_disk(runs, tmp_path):
  head = saved_head.read(runs["head"])
  head.save(tmp_path)
  again = saved_head.read(tmp_path)
  assert again.config == head.config and again.base_hash == head.base_hash
  assert again.attributes == head.attributes
  jax.tree.map(np.testing.assert_array_equal, again.params, head.params)
  file = tmp_path / "head.safetensors"
  params = safetensors.numpy.load_file(file)
  safetensors.numpy.save_file(
      {k: v.astype(np.int32) for k, v in params.items()}, file
  )
  with pytest.raises(errors.UserError, match="not finite floats in"):
    saved_head.read(tmp_path)
  file.write_bytes(b"short")
  with pytest.raises(errors.UserError, match="damaged"):
    saved_head.read(tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_convert_exports_base_and_head(runs, model, tmp_path, dtype):
  folder = convert.convert(runs["head"], tmp_path / "out", dtype=dtype)
  exported = ctrl_jax.load(folder)
  assert list(exported.heads) == ["keyword"]
  call = lambda m: m.generate(
      "the apple", "Text", attribute="soon", weight=_LARGE, max_new_tokens=6
  )[0][0].token_ids
  if dtype == "float32":
    assert call(exported) == call(model)
  # An export of the export has the head, too.
  again = convert.convert(folder, tmp_path / "again")
  assert call(ctrl_jax.load(again)) == call(exported)


def test_another_base_is_refused(runs, tmp_path):
  other = str(tmp_path / "other")
  base_config = changed(runs["config"], seed=7, init_from="", steps=2)
  base_config.task.name = "language_model"
  base_config.data.folder = str(runs["folder"] / "base_data")
  train.train(base_config, other)
  with pytest.raises(errors.UserError, match="other parameters"):
    ctrl_jax.load(runs["head"], base=other)
  # A run that is resumed beside another base, too.
  moved = shutil.copytree(runs["head"], tmp_path / "moved")
  with pytest.raises(errors.UserError, match="base_hash"):
    train.train(changed(runs["config"], init_from=other), str(moved))
  head = saved_head.read(runs["head"])
  config = head.config.base
  params = saved_model.read(runs["base"]).params
  smaller = dataclasses.replace(config, vocab_size=7)
  with pytest.raises(errors.UserError, match="120 tokens"):
    head.check(smaller, params, "It")
  wider = dataclasses.replace(config, activation="gelu_tanh")
  with pytest.raises(errors.UserError, match="activation"):
    head.check(wider, params, "It")


@pytest.mark.parametrize("fields, message", [
    (dict(attribute="never"), "not trained on the attribute 'never'"),
    (dict(attribute={"other": "soon"}), "no head 'other'"),
    (dict(attribute=["soon"] * 3), "3 attributes for 1 prompts"),
    (dict(attribute=3), "not a string"),
    (dict(attribute="soon", weight=float("nan")), "finite"),
    (dict(attribute="soon", guidance="2"), "finite"),
    (dict(weight=2.0), "no attribute"),
])
def test_bad_calls(model, fields, message):
  with pytest.raises(errors.UserError, match=message):
    model.generate("the", "Text", **fields)


def test_an_attribute_longer_than_the_head_takes(runs, model):
  head = dataclasses.replace(model.heads["keyword"], attributes=())
  other = ctrl_jax.load(runs["base"])
  other.add_head("any", head)
  with pytest.raises(errors.UserError, match="takes 1 to 8"):
    other.generate("the", "Text", attribute="apple pear plum cherry grape fig")
  with pytest.raises(errors.UserError, match="a head 'any' already"):
    other.add_head("any", head)
  never = dataclasses.replace(head, attribute_dropout=0.0)
  other.add_head("never", never)
  with pytest.raises(errors.UserError, match="task.attribute_dropout"):
    other.generate("the", "Text", attribute={"never": "soon"}, guidance=2.0)


def test_a_base_that_is_gone(runs, tmp_path):
  moved = shutil.copytree(runs["head"], tmp_path / "moved")
  file = moved / "config.json"
  content = json.loads(file.read_text())
  content["train"]["init_from"] = str(tmp_path / "gone")
  file.write_text(json.dumps(content))
  with pytest.raises(errors.UserError, match="--base"):
    ctrl_jax.load(moved)
  assert list(ctrl_jax.load(moved, base=runs["base"]).heads) == ["moved"]
  with pytest.raises(errors.UserError, match="none"):
    ctrl_jax.load(runs["base"], base=runs["base"])


def test_what_training_refuses(runs, tmp_path):
  c = runs["config"]
  where = str(tmp_path / "run")
  with pytest.raises(errors.UserError, match="init_from"):
    train.train(changed(c, init_from=""), where)
  with pytest.raises(errors.UserError, match="auxiliary.attribute_length=2"):
    train.train(changed(c, "auxiliary", attribute_length=2), where)
  plain = changed(c, "data", folder=str(runs["folder"] / "base_data"))
  with pytest.raises(errors.UserError, match="needs attributes"):
    train.train(plain, where)
  with pytest.raises(errors.UserError, match="attribute_dropout"):
    train.train(changed(c, "task", attribute_dropout=1.5), where)
  with pytest.raises(errors.UserError, match="unknown"):
    train.train(changed(c, "task", name="auxiliary"), where)
  assert not (tmp_path / "run").exists()


def test_ctranslate2_knows_no_heads(runs, tmp_path):
  export = convert.convert(runs["head"], tmp_path / "export")
  for path in (runs["head"], export):
    with pytest.raises(errors.UserError, match="has the head 'keyword', which"):
      convert.to_ctranslate2(path, tmp_path / "out")
  assert not (tmp_path / "out").exists()
