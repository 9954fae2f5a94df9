"""Fine-tuning: another model's parameters, and new control codes."""

import dataclasses
import json

import interop_fakes
import jax
import numpy as np
import pytest
import shared_data
import tiny_runs

import ctrl_jax
from ctrl_jax import config as config_lib
from ctrl_jax import errors, prepare, saved_model, train
from ctrl_jax.interop import hugging_face, hugging_face_tokenizer
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.lora import LoraConfig
from ctrl_jax.tasks.language_model import LanguageModelTask
from ctrl_jax.tasks.lora import LoraTask
from ctrl_jax.text import learn_bpe
from ctrl_jax.training import checkpoint, initial, optimizer, step, weights

TEXT = "the cat sat on the mat and the dog ran to the cat . "
MODEL = dict(d_model=16, d_ff=24, num_layers=2, num_heads=2, max_length=16)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
  """An exported CTRL with a fastBPE tokenizer."""
  folder = tmp_path_factory.mktemp("base")
  tok = learn_bpe.train([TEXT], ["cat"], 30)
  config = TransformerConfig(vocab_size=tok.vocab_size, **MODEL)
  params = transformer.init(config, jax.random.key(5))
  bias = params["head"]["bias"]  # 0 until it is trained.
  params["head"]["bias"] = np.linspace(-1, 3, bias.size, dtype=np.float32)
  hugging_face.write(folder, config, params)
  for name, content in hugging_face_tokenizer.files(tok).items():
    (folder / name).write_bytes(content)
  return folder


@pytest.fixture(scope="module")
def config(base, tmp_path_factory):
  """A data set with that tokenizer and one code more, and its configuration."""
  folder = tmp_path_factory.mktemp("data")
  (folder / "a.txt").write_text(
      "\n\n".join(TEXT * 3 + str(i) for i in range(30))
  )
  c = config_lib.default()
  c.data.folder = str(folder / "set")
  (folder / "b.txt").write_text(
      "\n\n".join(f"{i} " + TEXT * 2 for i in range(30))
  )
  c.data.sources = (
      config_lib.source("text", "cat", path=str(folder / "a.txt"),
                        piece_chars=60),
      config_lib.source("text", "r/new", path=str(folder / "b.txt"),
                        piece_chars=60),
  )
  c.data.sequence_length = 16
  c.data.validation_fraction = 0.2
  c.data.workers = 1
  c.tokenizer.path = str(base)
  c.model.update(MODEL)
  c.train.update(dict(
      steps=1, batch_size=4, eval_every=1, checkpoint_every=1, log_every=1,
      eval_sequences=4, sample_tokens=0, init_from=str(base),
  ))
  # So small that one update changes nothing that matters here.
  c.optimizer.update(dict(warmup_steps=0, learning_rate=1e-9))
  prepare.prepare(c)
  return c.lock()


def changed(config, section="train", **fields):
  copy = config.copy_and_resolve_references()
  with copy.unlocked():
    copy[section].update(fields)
  return copy


def test_begins_where_the_other_ended(base, config, tmp_path):
  old = ctrl_jax.load(base)
  train.train(config, str(tmp_path / "run"))
  new = ctrl_jax.load(tmp_path / "run")
  size = old.config.vocab_size
  assert new.config.vocab_size == size + 1
  np.testing.assert_allclose(
      new.logits([[3, 1, 4]])[..., :size], old.logits([[3, 1, 4]]), atol=1e-5
  )
  for part, leaf in (("embedding", "table"), ("head", "bias")):
    expected = old.params[part][leaf][:size].mean(0)
    assert np.any(expected)
    np.testing.assert_allclose(
        new.params[part][leaf][size], expected, rtol=1e-5, atol=1e-6
    )
  assert new.tokenizer.code_ids("r/new") == [size]
  # Going on reads the run's own checkpoint, not the other model.
  again = changed(config, steps=2, init_from=str(tmp_path / "gone"))
  assert train.train(again, str(tmp_path / "run"))["step"] == 2


def test_a_new_code_begins_as_a_word(base, config, tmp_path):
  c = changed(config, init_codes=("r/new=cat",))
  with c.unlocked():
    c.model.vocab_multiple = 32
  train.train(c, str(tmp_path / "run"))
  params = checkpoint.load_params(tmp_path / "run")
  old = ctrl_jax.load(base)
  cat = old.tokenizer.code_ids("cat")[0]
  size = old.config.vocab_size
  for part, leaf in (("embedding", "table"), ("head", "bias")):
    rows = np.asarray(params[part][leaf])
    expected = old.params[part][leaf][cat]
    assert np.any(expected)
    np.testing.assert_allclose(rows[[size, cat]], [expected] * 2, rtol=1e-5,
                               atol=1e-6)
    assert rows.shape[0] % 32 == 0
  assert not np.any(params["embedding"]["table"][size + 1:])


@pytest.mark.parametrize(
    "section, fields, says",
    [
        ("train", dict(init_from="/no/where"), "does not exist"),
        ("train", dict(init_codes=("cat=the",)), "NEW=WORD"),
        ("train", dict(init_codes=("r/new",)), "NEW=WORD"),
        ("train", dict(init_codes=("r/new=cat", "r/new=dog")), "'r/new' twice"),
        ("train", dict(init_codes=("r/new=dogmatic",)), "not one token"),
        ("train", dict(init_codes=("r/new=\u2603",)), "not one token"),
        ("train", dict(init_accumulators=True), "no accumulators"),
        ("model", dict(d_model=32), r"Set model\.d_model=16 \(is 32\)"),
    ],
)
def test_what_does_not_fit(config, tmp_path, section, fields, says):
  with pytest.raises(errors.UserError, match=says):
    train.train(changed(config, section, **fields), str(tmp_path / "run"))
  assert not (tmp_path / "run").exists()


def test_another_tokenizer(base, config, tmp_path):
  other = tmp_path / "other"
  other.mkdir()
  for file in base.iterdir():
    (other / file.name).write_bytes(file.read_bytes())
  lines = (base / "vocab").read_text().split("\n")
  (other / "vocab").write_text("\n".join(lines[1::-1] + lines[2:]))
  with pytest.raises(errors.UserError, match="tokenizer is not that of"):
    train.train(changed(config, init_from=str(other)), str(tmp_path / "run"))


def test_a_frozen_model_learns_no_new_codes(config, tmp_path):
  c = config.copy_and_resolve_references()
  c.task.name = "lora"
  with pytest.raises(errors.UserError, match="learns no new ones"):
    train.train(c, str(tmp_path / "run"))
  assert not (tmp_path / "run").exists()


def test_rows_of_an_untied_head_grow_too():
  old = interop_fakes.UNTIED
  new = dataclasses.replace(old, vocab_size=15, vocab_multiple=4)
  params = interop_fakes.random_params(old)
  grown = initial._grow(params, 13, new, lambda x, i: x.mean(0))
  for name in ("embedding", "head"):
    table = params[name]["table"]
    assert grown[name]["table"].shape == (16, 8)
    np.testing.assert_array_equal(grown[name]["table"][:13], table)
    np.testing.assert_allclose(grown[name]["table"][14], table.mean(0))
    assert not grown[name]["table"][15].any()
  interop_fakes.assert_same(grown["layers"], params["layers"])


def test_split_weights_begin_as_the_float32_they_were():
  task = LanguageModelTask(interop_fakes.CTRL)
  rule = optimizer.make(optimizer.OptimizerConfig("factored_adagrad"))
  params = interop_fakes.random_params(interop_fakes.CTRL)
  state = step.TrainStep(task, rule, weights="split").init()
  state = initial.put(state, initial.Initial(params, None, ""), task)
  assert state["params"]["embedding"]["table"].dtype == "bfloat16"
  interop_fakes.assert_same(
      weights.join(state["params"], state["low_bits"]), params
  )


def test_a_frozen_model_in_bfloat16():
  config = LoraConfig(interop_fakes.CTRL, rank=2)
  rule = optimizer.make(optimizer.OptimizerConfig("adam"))
  params = interop_fakes.random_params(interop_fakes.CTRL)
  task = LoraTask(config)
  state = step.TrainStep(task, rule, frozen_weights="bfloat16").init()
  state = initial.put(state, initial.Initial(params, None, ""), task)
  base = state["frozen"]["base"]
  assert base["layers"]["up"]["kernel"].dtype == "bfloat16"
  assert base["head"]["bias"].dtype == "float32"
  interop_fakes.assert_same(base, weights.half(params))


def adagrad_sums(opt_state):
  is_adagrad = lambda s: hasattr(s, "sum_of_squares")
  states = jax.tree.leaves(opt_state, is_leaf=is_adagrad)
  (found,) = filter(is_adagrad, states)
  return found.sum_of_squares


class NoCodes:
  code_words = {}


def test_accumulators_of_the_original():
  """From TensorFlow, whose files bring no tokenizer along."""
  source = shared_data.path("expected/tf_checkpoint")
  original = saved_model.read(source, num_heads=4, with_accumulators=True)
  model = TransformerConfig(
      vocab_size=99, d_model=16, d_ff=32, num_layers=2, num_heads=4,
      max_length=12,
  )
  section = config_lib.default().train
  section.update(dict(
      init_from=str(source), init_num_heads=4, init_accumulators=True
  ))
  start = initial.read(section, model, NoCodes(), 0.1)
  rule = optimizer.make(optimizer.OptimizerConfig())
  task = LanguageModelTask(model)
  state = initial.put(step.TrainStep(task, rule).init(), start, task)
  sums = adagrad_sums(state["opt_state"])
  np.testing.assert_array_equal(
      sums["head"]["bias"][:97], original.accumulators["head"]["bias"]
  )
  np.testing.assert_array_equal(sums["head"]["bias"][97:], np.float32(0.1))
  np.testing.assert_array_equal(
      state["params"]["layers"]["up"]["kernel"],
      original.params["layers"]["up"]["kernel"],
  )


def test_training_goes_on_with_the_originals_accumulators(tmp_path):
  """The first step, d = lr g / sqrt(A + g^2), by a run that has A = 0.1."""
  source = shared_data.path("expected/tf_checkpoint")
  original = saved_model.read(source, num_heads=4, with_accumulators=True)
  letters = " ".join(chr(i) for i in range(33, 127))
  tok = learn_bpe.train([TEXT + letters], ["cat"], 30)
  (tmp_path / "tokenizer").mkdir()
  tok.save(tmp_path / "tokenizer")
  (tmp_path / "a.txt").write_text(
      "\n\n".join(TEXT * 3 + str(i) for i in range(30))
  )
  c = config_lib.default()
  c.data.folder = str(tmp_path / "set")
  c.data.sources = (
      config_lib.source("text", "cat", path=str(tmp_path / "a.txt"),
                        piece_chars=60),
  )
  c.data.validation_fraction = 0.2
  c.tokenizer.path = str(tmp_path / "tokenizer")
  tiny_runs.shrink(c, 12, steps=1, eval_every=1, checkpoint_every=1)
  c.model.update(dict(d_model=16, d_ff=32, num_layers=2, num_heads=4))
  c.train.update(dict(init_from=str(source), init_num_heads=4))
  c.optimizer.update(dict(
      warmup_steps=0, learning_rate=0.05, clip_norm=1.0,
      initial_accumulator=0.1,
  ))
  prepare.prepare(c)

  def change(name, **fields):
    c.train.update(fields)
    train.train(c, str(tmp_path / name))
    params = checkpoint.load_params(tmp_path / name)
    return [
        np.float64(params["layers"][x]["kernel"])
        - original.params["layers"][x]["kernel"] for x in ("up", "value")
    ]

  for name, fresh, found in zip(
      ("up", "value"), change("fresh"), change("on", init_accumulators=True)
  ):
    gradient = fresh * 0.1**0.5 / np.sqrt(0.05**2 - fresh**2)
    sums = original.accumulators["layers"][name]["kernel"]
    expected = 0.05 * gradient / np.sqrt(sums + gradient**2)
    assert np.abs(expected - fresh).max() > 1e-4
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-6)


def test_accumulators_need_adagrad(config, tmp_path):
  c = changed(config, init_accumulators=True)
  c = changed(c, "optimizer", name="adam")
  with pytest.raises(errors.UserError, match="needs optimizer"):
    train.train(c, str(tmp_path / "run"))
  assert not (tmp_path / "run").exists()


def test_saved_with_the_run(config, tmp_path):
  train.train(config, str(tmp_path / "run"))
  stored = json.loads((tmp_path / "run" / "config.json").read_text())
  assert stored["train"]["init_from"] == config.train.init_from
