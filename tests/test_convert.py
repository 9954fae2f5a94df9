"""The command `convert`."""

import dataclasses
import json
import sys
import tracemalloc

import command_runs
import evaluation_fakes as fakes
import interop_fakes
import jax
import numpy as np
import pytest
import safetensors.numpy
import shared_data

import ctrl_jax
from benchmarks import convert_memory
from ctrl_jax import convert, errors
from ctrl_jax.interop import hugging_face
from ctrl_jax.training import weights


@pytest.fixture
def workdir(tmp_path, monkeypatch):
  fakes.write_workdir(tmp_path / "run", monkeypatch)
  return tmp_path / "run"


def test_export_is_the_same_model(workdir, tmp_path):
  folder = convert.convert(workdir, tmp_path / "new" / "export")
  assert sorted(p.name for p in folder.iterdir()) == [
      "README.md", "config.json", "ctrl_jax.json", "generation_config.json",
      "model.safetensors", "sentencepiece.model", "tokenizer.json",
      "tokenizer_config.json",
  ]
  a, b = ctrl_jax.load(workdir), ctrl_jax.load(folder)
  jax.tree.map(np.testing.assert_array_equal, a.params, b.params)
  assert (a.prior, a.codes, a.window) == (b.prior, b.codes, b.window)
  assert a.score("cat purr", "Cats") == b.score("cat purr", "Cats")
  config = json.loads((folder / "config.json").read_text())
  assert config["eos_token_id"] == a.tokenizer.end_id


def test_replaces_only_an_earlier_export_and_only_by_force(workdir, tmp_path):
  folder = tmp_path / "export"
  folder.mkdir()  # An empty folder is fine.
  convert.convert(workdir, folder)
  with pytest.raises(errors.UserError, match="--force"):
    convert.convert(workdir, folder)
  convert.convert(workdir, folder, force=True)
  other = tmp_path / "other"
  other.mkdir()
  (other / "thesis.txt").write_text("mine")
  with pytest.raises(errors.UserError, match="left alone"):
    convert.convert(workdir, other, force=True)
  assert (other / "thesis.txt").read_text() == "mine"


def test_an_export_can_be_exported(workdir, tmp_path):
  first = convert.convert(workdir, tmp_path / "one")
  second = convert.convert(first, tmp_path / "two")
  for file in first.iterdir():
    assert (second / file.name).read_bytes() == file.read_bytes()


def test_failure_leaves_nothing(workdir, tmp_path, monkeypatch):
  def fail(*args, **kwargs):
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(hugging_face.safetensors_folder, "_write_tensor", fail)
  before = sorted(tmp_path.iterdir())
  with pytest.raises(OSError):
    convert.convert(workdir, tmp_path / "export")
  assert sorted(tmp_path.iterdir()) == before


def test_half_precision_in_several_files(workdir, tmp_path):
  folder = convert.convert(
      workdir, tmp_path / "export", dtype="bfloat16", shard_size=0.002
  )
  assert len(list(folder.glob("*.safetensors"))) > 1
  a, b = ctrl_jax.load(workdir), ctrl_jax.load(folder)
  jax.tree.map(
      lambda x, y: np.testing.assert_allclose(x, y, rtol=2**-8),
      a.params, b.params,
  )
  card = (folder / "README.md").read_text()
  for code in a.codes:
    assert f"| `{code}` |" in card


def test_split_weights_are_rounded_once(tmp_path):
  """Their 32 bits: the 16 that the model reads are rounded already."""
  params = jax.device_put(fakes.params())
  table = params["embedding"]["table"]
  # Between two bfloat16s: `split` rounds it up, IEEE 754 to the even one, 1.
  params["embedding"]["table"] = table.at[0, 0].set(1 + 2.0**-8)
  high, low = weights.split(params)
  assert high["embedding"]["table"][0, 0] == 1 + 2.0**-7
  fakes.write_workdir(
      tmp_path / "run", None, state=dict(params=high, low_bits=low)
  )
  models = {"run": (tmp_path / "run", np.float32)}
  for dtype in ("float32", "float16", "bfloat16"):
    folder = convert.convert(
        tmp_path / "run", tmp_path / dtype, dtype=dtype
    )
    models[dtype] = folder, dtype
  for folder, dtype in models.values():
    wanted = jax.tree.map(
        lambda x, to=dtype: x.astype(to).astype(np.float32), params
    )
    jax.tree.map(
        np.testing.assert_array_equal, ctrl_jax.load(folder).params, wanted
    )


@pytest.mark.parametrize("size", [float("nan"), float("inf"), -1.0])
def test_sizes_that_are_none(workdir, tmp_path, size):
  with pytest.raises(errors.UserError, match="--shard-size"):
    convert.convert(workdir, tmp_path / "export", shard_size=size)
  assert not (tmp_path / "export").exists()


def test_without_a_tokenizer(workdir, tmp_path, caplog):
  first = convert.convert(workdir, tmp_path / "one")
  for name in ("sentencepiece.model", "tokenizer.json",
               "tokenizer_config.json"):
    (first / name).unlink()
  second = convert.convert(first, tmp_path / "two")
  assert not (second / "tokenizer_config.json").exists()
  model = ctrl_jax.load(second)
  assert model.logits([[1, 2]]).shape[:2] == (1, 2)
  with pytest.raises(errors.UserError, match=r"tokenizer_config\.json is"):
    model.score(["cat"])


def test_the_originals_checkpoint(tmp_path):
  source = shared_data.path("expected/tf_checkpoint")
  expected = np.load(source / "expected.npz")
  with pytest.raises(errors.UserError, match="num_heads"):
    convert.convert(source, tmp_path / "export")
  folder = convert.convert(
      source, tmp_path / "export", num_heads=4, max_length=12
  )
  np.testing.assert_allclose(
      ctrl_jax.load(folder).logits(expected["ids"]), expected["logits"],
      atol=1e-4,
  )


def test_model_without_a_layout(workdir, tmp_path):
  file = workdir / "config.json"
  content = json.loads(file.read_text())
  content["model"]["residual"] = "normalised"
  file.write_text(json.dumps(content))
  with pytest.raises(errors.UserError, match="residual"):
    convert.convert(workdir, tmp_path / "export")
  assert not (tmp_path / "export").exists()


@pytest.fixture
def command(capsys):
  def run(*arguments):
    code = command_runs.run(convert, *map(str, arguments))
    return code, *capsys.readouterr()

  return run


def test_the_command(command, workdir, tmp_path):
  folder = tmp_path / "export"
  arguments = (
      f"--model={workdir}", f"--to={folder}", "--dtype=bfloat16",
      "--shard-size=0.002",
  )
  code, out, _ = command(*arguments)
  assert code == 0
  printed = {
      name: int(size.replace(",", ""))
      for size, _, name in map(str.split, out.splitlines())
  }
  assert printed == {str(f): f.stat().st_size for f in folder.iterdir()}
  shards = sorted(folder.glob("*.safetensors"))
  assert len(shards) > 1
  for file in shards:
    for tensor in safetensors.numpy.load_file(file).values():
      assert tensor.dtype.name == "bfloat16"
  code, _, err = command(*arguments)
  assert code == 2 and "--force" in err and len(err.splitlines()) == 1
  assert command(*arguments[:2], "--force")[0] == 0
  assert [f.name for f in folder.glob("*.safetensors")] == ["model.safetensors"]
  assert command(*arguments[:1])[0] == command(*arguments[1:])[0] == 2


def test_the_command_on_the_originals_checkpoint(command, tmp_path):
  source = shared_data.path("expected/tf_checkpoint")
  arguments = f"--model={source}", f"--to={tmp_path / 'export'}"
  code, _, err = command(*arguments)
  assert code == 2 and "--num-heads" in err
  code, out, _ = command(
      *arguments, "--format=huggingface", "--num-heads=4", "--max-length=12"
  )
  assert code == 0 and "model.safetensors" in out
  config = ctrl_jax.load(tmp_path / "export").config
  assert (config.num_heads, config.max_length) == (4, 12)


def test_the_command_for_ctranslate2(command, workdir, tmp_path):
  ctranslate2 = pytest.importorskip("ctranslate2")
  code, out, _ = command(
      f"--model={workdir}", f"--to={tmp_path / 'export'}",
      "--format=ctranslate2", "--quantization=float32",
  )
  assert code == 0
  names = {line.rsplit("/", 1)[1] for line in out.splitlines()}
  assert names == {
      "model.bin", "config.json", "vocabulary.json", "ctrl_jax.json"
  }
  exported = ctranslate2.Generator(str(tmp_path / "export"))
  assert exported.generate_batch([["cat"]], max_length=2)
  # With 8 bits if not told otherwise. One replaces another.
  for force in ([], ["--force"]):
    code, _, _ = command(
        f"--model={workdir}", f"--to={tmp_path / 'small'}",
        "--format=ctranslate2", *force,
    )
    assert code == 0
  size = lambda name: (tmp_path / name / "model.bin").stat().st_size
  assert size("small") < 0.6 * size("export")


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--format=ctranslate2", "--dtype=float16"], "--dtype would do nothing"
         " with --format=ctranslate2"),
        (["--format=ctranslate2", "--shard-size=5", "--dtype=float32"],
         "--dtype, --shard-size would"),
        (["--quantization=int8"], "--quantization would do nothing with"
         " --format=huggingface"),
        (["--check=RUN"], "--model, --to would do nothing with --check"),
        (["--to=ctranslate2"], "add --format=ctranslate2, or"),
    ],
)
def test_flags_that_would_do_nothing(
    command, workdir, tmp_path, monkeypatch, arguments, says
):
  monkeypatch.chdir(tmp_path)
  code, _, err = command(f"--model={workdir}", "--to=export", *arguments)
  assert code == 2 and says in err and len(err.splitlines()) == 1
  assert [p.name for p in tmp_path.iterdir()] == [workdir.name]


def test_the_command_checks(command, tmp_path):
  fakes.write_export(tmp_path / "export")
  code, out, _ = command(f"--check={tmp_path / 'export'}")
  assert code == 1
  assert "FAILED d_model" in out and "0 of 1 known answers hold" in out
  code, _, err = command(f"--check={tmp_path / 'none'}")
  assert code == 2 and "does not exist" in err
  code, _, err = command("--check=")
  assert code == 2 and "Give --check=MODEL" in err


def test_memory_is_a_part_of_the_model(tmp_path):
  """No half of the parameters is in memory at one time."""
  config = dataclasses.replace(
      interop_fakes.CTRL, d_model=64, d_ff=256, num_layers=20, vocab_size=2000
  )
  (tmp_path / "model").mkdir()
  params = interop_fakes.random_params(config)
  hugging_face.write(tmp_path / "model", config, params)
  convert.convert(tmp_path / "model", tmp_path / "first")  # Imports.
  tracemalloc.start()
  try:
    folder = convert.convert(
        tmp_path / "model", tmp_path / "second", dtype="bfloat16"
    )
    _, peak = tracemalloc.get_traced_memory()
  finally:
    tracemalloc.stop()
  written = (folder / "model.safetensors").stat().st_size
  assert peak < 0.9 * written < 0.5 * sum(
      x.nbytes for x in jax.tree.leaves(params)
  )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's figures")
def test_peak_memory_of_the_command(tmp_path):
  assert convert_memory.TARGET == 1.2
  rows = convert_memory.measure(tmp_path)
  assert {row["model"] for row in rows} == {
      "huggingface", "workdir", "split", "tensorflow"
  }
  for row in rows:
    assert row["ratio"] < convert_memory.TARGET, row
