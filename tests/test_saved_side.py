"""Side-tuning from the data set to samples, as a user runs it."""

import auxiliary_runs
import jax
import numpy as np
import pytest

import ctrl_jax
from ctrl_jax import convert, errors, sample, saved_head, train

pytestmark = pytest.mark.slow

PROMPTS = ["soon: the apple", "however: the fig and"]
OPTIONS = dict(max_new_tokens=8, penalty=1.0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  """A base and a side network, the keyword as prefix, a few steps each."""
  return auxiliary_runs.train_beside(
      auxiliary_runs.train_base(tmp_path_factory.mktemp("side")), "side",
      "side_tuning", "{keyword}: {prefix}",
      side=dict(d_model=16, d_ff=32, num_layers=1, num_heads=2),
  )


@pytest.fixture(scope="module")
def model(runs):
  return ctrl_jax.load(runs["workdir"])


def ids(results):
  return [[s.token_ids for s in samples] for samples in results]


def test_resuming_is_bit_identical(runs, tmp_path):
  stopped = str(tmp_path / "stopped")
  short = runs["config"].copy_and_resolve_references()
  short.train.steps = 3
  train.train(short, stopped)
  train.train(runs["config"], stopped)
  a, b = saved_head.read(stopped), saved_head.read(runs["workdir"])
  jax.tree.map(np.testing.assert_array_equal, a.params, b.params)
  assert set(a.params) == {"a", "final_norm", "layers"}
  assert a.params["a"] != 0


def test_a_side_network_is_always_on(runs, model):
  assert list(model.heads) == ["side"]
  assert not model.heads["side"].takes_attribute
  base = ctrl_jax.load(runs["base"])
  jax.tree.map(np.testing.assert_array_equal, base.params, model.params)
  alone = ids(base.generate(PROMPTS, "Text", **OPTIONS))
  on = ids(model.generate(PROMPTS, "Text", **OPTIONS))
  call = lambda **kw: ids(model.generate(PROMPTS, "Text", **OPTIONS, **kw))
  assert call(weight=1.0) == on
  assert call(weight={"side": 1.0}) == on
  assert call(weight=0.0) == alone
  assert call(weight={"side": 0.0}) == alone
  assert call(weight=-20.0) != alone


@pytest.mark.parametrize("fields, message", [
    (dict(attribute="soon"), "no head that obeys an attribute"),
    (dict(attribute={"side": "soon"}), "takes no attribute"),
    (dict(weight=float("inf")), "finite"),
    (dict(weight={"other": 1.0}), "no head 'other'"),
    (dict(guidance=2.0), "no attribute"),
])
def test_bad_calls(model, fields, message):
  with pytest.raises(errors.UserError, match=message):
    model.generate("the", "Text", **fields)


def test_alone_on_disk_and_exported(runs, model, tmp_path):
  head = saved_head.read(runs["workdir"])
  (tmp_path / "head").mkdir()
  head.save(tmp_path / "head")
  again = saved_head.read(tmp_path / "head")
  assert again.config == head.config and again.base_hash == head.base_hash
  jax.tree.map(np.testing.assert_array_equal, again.params, head.params)
  exported = ctrl_jax.load(convert.convert(runs["workdir"], tmp_path / "out"))
  assert list(exported.heads) == ["side"]
  call = lambda m: ids(m.generate(PROMPTS, "Text", **OPTIONS, weight=-20.0))
  assert call(exported) == call(model)


def test_the_command(runs, capsys):
  def call(*arguments):
    flags = sample.FLAGS
    flags.unparse_flags()
    for name in list(flags):
      flags[name].unparse()
    flags(["sample", f"--model={runs['workdir']}", "--code=Text",
           "--prompt=soon: the", "--max_new_tokens=6", *arguments])
    sample.main()
    return capsys.readouterr().out

  assert call() == call("--weight=1")
  with pytest.raises(errors.UserError, match="'side' is not in it"):
    call("--next_tokens=3")


def test_what_training_refuses(runs, tmp_path):
  where = str(tmp_path / "run")
  c = runs["config"].copy_and_resolve_references()
  c.side.d_model = 8
  with pytest.raises(errors.UserError, match="side.d_model=8"):
    train.train(c, where)
  c.side.d_model = 16
  c.train.sample_tokens = 4
  with pytest.raises(errors.UserError, match="train.sample_tokens=4"):
    train.train(c, where)
  assert not (tmp_path / "run").exists()
