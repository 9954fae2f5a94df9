"""Side-tuning from the data set to samples, as a user runs it."""

import json

import jax
import numpy as np
import pytest

import ctrl_jax
from ctrl_jax import config as config_lib
from ctrl_jax import convert, errors, prepare, sample, saved_head, train

pytestmark = pytest.mark.slow

WORDS = "apple pear plum cherry grape melon fig lemon".split()
KEYWORDS = ("however", "soon", "in fact")
PROMPTS = ["soon: the apple", "however: the fig and"]
OPTIONS = dict(max_new_tokens=8, penalty=1.0)


def triples():
  for i in range(120):
    pick = lambda k, i=i: WORDS[(i * k + k) % 8]
    yield dict(
        keyword=KEYWORDS[i % 3], prefix=f"the {pick(1)}",
        text=f" and {pick(2)} {KEYWORDS[i % 3]} fell on {pick(3)}.",
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  """A base and a side network, the keyword as prefix, a few steps each."""
  folder = tmp_path_factory.mktemp("side")
  file = folder / "triples.jsonl"
  file.write_text("".join(json.dumps(row) + "\n" for row in triples()))
  c = config_lib.default()
  c.data.sources = (
      config_lib.source(
          "jsonl", "Text", path=str(file), template="{keyword}: {prefix}",
          target="{text}",
      ),
  )
  c.data.folder = str(folder / "data")
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
  own.task.name = "side_tuning"
  own.side.update(dict(d_model=16, d_ff=32, num_layers=1, num_heads=2))
  own.train.init_from = base
  workdir = str(folder / "side")
  train.train(own, workdir)
  return dict(folder=folder, base=base, side=workdir, config=own)


@pytest.fixture(scope="module")
def model(runs):
  return ctrl_jax.load(runs["side"])


def ids(results):
  return [[s.token_ids for s in samples] for samples in results]


def test_resuming_is_bit_identical(runs, tmp_path):
  stopped = str(tmp_path / "stopped")
  short = runs["config"].copy_and_resolve_references()
  short.train.steps = 2
  train.train(short, stopped)
  train.train(runs["config"], stopped)
  a, b = saved_head.read(stopped), saved_head.read(runs["side"])
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
  head = saved_head.read(runs["side"])
  (tmp_path / "head").mkdir()
  head.save(tmp_path / "head")
  again = saved_head.read(tmp_path / "head")
  assert again.config == head.config and again.base_hash == head.base_hash
  jax.tree.map(np.testing.assert_array_equal, again.params, head.params)
  exported = ctrl_jax.load(convert.convert(runs["side"], tmp_path / "out"))
  assert list(exported.heads) == ["side"]
  call = lambda m: ids(m.generate(PROMPTS, "Text", **OPTIONS, weight=-20.0))
  assert call(exported) == call(model)


def test_the_command(runs, capsys):
  def call(*arguments):
    flags = sample.FLAGS
    flags.unparse_flags()
    for name in list(flags):
      flags[name].unparse()
    flags(["sample", f"--model={runs['side']}", "--code=Text",
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
