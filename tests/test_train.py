import json
import pathlib
import sys

import numpy as np
import pytest

import ctrl_jax
from ctrl_jax import (
    command,
    config,
    convert,
    errors,
    evaluate,
    prepare,
    train,
)
from ctrl_jax.data import records
from ctrl_jax.interop import tfrecords
from ctrl_jax.text import learn_bpe
from ctrl_jax.training import checkpoint, checksum


def run(capsys, *argv):
  train.FLAGS.unparse_flags()
  # Those of a configuration that another test of this process has read.
  for name in [n for n in train.FLAGS if n.startswith("config.")]:
    delattr(train.FLAGS, name)
  # Overrides of configuration fields are looked up there.
  sys.argv = ["train", *argv]
  with pytest.raises(SystemExit) as e:
    command.run(train.main, train.FLAGS, train.__doc__, sys.argv)
  return e.value.code, capsys.readouterr().err


def test_says_what_is_missing(capsys):
  code, err = run(capsys)
  assert code == 2 and "--config=configs/demo.py" in err


@pytest.mark.parametrize("seconds", ["0", "nan", "inf", "1e30"])
def test_process_timeout_is_of_a_week_at_most(capsys, seconds):
  code, err = run(capsys, f"--process-timeout={seconds}")
  assert code == 2 and err.count("\n") == 1
  assert "Give seconds from 1 to 604800" in err


def test_names_the_prepare_command(capsys, tmp_path):
  code, err = run(
      capsys, "--config=configs/ctrl_1b.py", f"--workdir={tmp_path}/run",
      f"--config.data.folder={tmp_path}/none",
  )
  assert code == 2 and err.count("\n") == 1
  assert "python -m ctrl_jax.prepare --config=configs/ctrl_1b.py" in err
  assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def without_code(tmp_path_factory):
  """Makes a run on text of which `codes` says the codes: (workdir, result)."""

  def make(*codes):
    folder = tmp_path_factory.mktemp("without_code")
    sources = []
    for code, word in zip(codes, ("pear", "drill")):
      file = folder / f"{word}.txt"
      file.write_text("".join(
          f"{word} {i} and {word} {i * i} and more.\n\n" for i in range(200)
      ))
      sources.append(
          config.source("text", code, path=str(file), piece_chars=60)
      )
    c = config.default()
    c.data.folder = str(folder / "data")
    c.data.sources = tuple(sources)
    c.data.sequence_length = 16
    c.data.validation_fraction = c.data.test_fraction = 0.2
    c.data.workers = 1
    c.tokenizer.vocab_size = 130
    c.model.update(
        dict(d_model=16, d_ff=32, num_layers=1, num_heads=2, max_length=16)
    )
    c.train.update(dict(
        steps=4, batch_size=8, eval_every=4, checkpoint_every=4,
        eval_sequences=16, sample_tokens=4, sample_prompts=("", "pear"),
    ))
    prepare.prepare(c)
    return folder / "run", train.train(c, str(folder / "run")), c

  return make


def evaluate_run(workdir, *arguments):
  for name in evaluate.FLAGS:
    evaluate.FLAGS[name].unparse()
  evaluate.FLAGS(["e", f"--model={workdir}", "--min_tokens=4", *arguments])
  evaluate.main()
  return json.loads((workdir / "evaluation" / "evaluation.json").read_text())


def test_without_any_code(without_code, capsys):
  workdir, result, c = without_code("")
  assert set(result["perplexity_by_code"]) == {"(no code)"}
  row = records.open_split(c.data.folder, "train")[0]
  assert row["weights"][0] == 0 and row["weights"][1:].all()
  # Of the prompts, the one that has something to continue.
  samples = (workdir / "samples.txt").read_text().splitlines()
  assert len(samples) == 2 and samples[1].startswith("[(no code)] pear")
  model = ctrl_jax.load(workdir)
  assert model.codes == ()
  assert len(model.generate("pear", max_new_tokens=3)[0][0].token_ids) == 3
  assert model.score("pear 3 and")[0].num_tokens > 0
  with pytest.raises(errors.UserError, match="no control codes to compare"):
    model.attribute("pear")
  exported = ctrl_jax.load(convert.convert(workdir, workdir / "export"))
  assert exported.codes == ()
  assert exported.score("pear 3 and") == model.score("pear 3 and")
  found = evaluate_run(workdir)
  assert set(found) == {"settings", "without_code"}
  assert found["without_code"]["perplexity"] > 1
  assert "Without a code: perplexity" in capsys.readouterr().out
  with pytest.raises(errors.UserError, match="the data set has none"):
    evaluate_run(workdir, "--control")


def test_with_and_without_a_code(without_code):
  workdir, result, c = without_code("Tools", "")
  assert set(result["perplexity_by_code"]) == {"(no code)", "Tools"}
  samples = (workdir / "samples.txt").read_text()
  assert samples.count("[Tools] ") == 2 and samples.count("[(no code)] ") == 1
  model = ctrl_jax.load(workdir)
  assert model.codes == ("Tools",) and set(model.prior) == {"Tools", ""}
  ranking = model.attribute("pear 3 and", prior="data")[0]
  assert [a.code for a in ranking] == ["Tools"]
  # Another tokenizer in the data set, of the same size in bytes.
  file = pathlib.Path(c.data.folder) / "tokenizer" / "sentencepiece.model"
  content = bytearray(file.read_bytes())
  content[content.index(b"ear")] = ord("o")
  file.write_bytes(content)
  with pytest.raises(errors.UserError, match="not what was written"):
    train.train(c, str(workdir.parent / "another"))
  assert not (workdir.parent / "another").exists()


def test_tfrecords_without_prepare(tmp_path):
  """Resumed in the middle, it ends with the same bits."""
  tok = learn_bpe.train(["the cat sat on the mat by the dog"], ["Legal"], 9)
  tok.save(tmp_path / "tok")
  rng = np.random.default_rng(0)
  code = tok.code_ids("Legal")
  rows = [[*code, *rng.integers(0, tok.unknown_id, 12)] for _ in range(60)]
  tfrecords.write(tmp_path / "a.tfrecords", rows)
  c = config.default()
  c.data.folder = str(tmp_path / "index")
  c.data.tfrecords = (f"Legal={tmp_path}/*.tfrecords",)
  c.data.sequence_length = 16
  c.data.validation_fraction = 0.2
  c.tokenizer.path = str(tmp_path / "tok")
  c.model.update(
      dict(d_model=16, d_ff=32, num_layers=1, num_heads=2, max_length=16)
  )
  c.train.update(dict(batch_size=8, checkpoint_every=9, sample_tokens=3))
  sums = []
  for name, stops in (("one", [4]), ("two", [1, 3, 4])):
    for c.train.steps in stops:
      result = train.train(c, str(tmp_path / name))
    params = checkpoint.load_params(tmp_path / name)
    sums.append(checksum.tree_checksums(params))
  assert sums[0] == sums[1]
  assert set(result["perplexity_by_code"]) == {"Legal"}
  model = ctrl_jax.load(tmp_path / "two")
  assert model.codes == ("Legal",) and model.prior == {"Legal": 1.0}


def test_what_sample_wants_of_a_run():
  c = config.default()
  assert train.sample_options(c, ("Reddit r/x", "B")) == ' --code="Reddit r/x"'
  assert train.sample_options(c, ()) == ' --prompt="It was"'
  c.task.name = "cvae"
  assert train.sample_options(c, ("B",)) == (
      ' --code="B" --latent=prior --rules=cvae'
  )
  c.cvae.prior = "none"
  assert train.sample_options(c, ("B",)) == ' --code="B"'
