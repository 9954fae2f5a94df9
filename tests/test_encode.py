"""Latents from texts to files and back, by the commands."""

import json

import command_runs
import numpy as np
import pytest

import ctrl_jax
from ctrl_jax import encode, errors, latents, sample, saved_latents
from ctrl_jax.data.sources import Source

SHORT = ("--max-new-tokens=4", "--penalty=1", "--format=json")


@pytest.fixture(scope="module")
def runs(cvae_workdirs, tmp_path_factory):
  found = cvae_workdirs
  file = str(tmp_path_factory.mktemp("encode") / "z.npz")
  assert not command_runs.run(
      encode, f"--model={found['along']}", f"--input={found['pairs']}",
      f"--output={file}", "--code=Text", "--id={prompt} {text}",
      "--max-texts=5",
  )
  return found | dict(file=file)


def sampled(capsys, runs, *arguments):
  """The records that `sample` writes."""
  capsys.readouterr()
  code = command_runs.run(
      sample, f"--model={runs['along']}", "--code=Text", *SHORT, *arguments
  )
  out, err = capsys.readouterr()
  assert (code, err) == (0, "")
  return [json.loads(line) for line in out.splitlines()]


def test_the_file_holds_what_the_model_says(runs):
  model = ctrl_jax.load(runs["along"])
  rows = [json.loads(line) for line in open(runs["pairs"])][:5]
  found = saved_latents.read(runs["file"])
  found.check(model)
  assert found.ids == tuple(f"{r['prompt']} {r['text']}" for r in rows)
  mean, log_variance = model.encode(
      [(r["prompt"] + "\n", r["text"]) for r in rows], "Text"
  )
  np.testing.assert_array_equal(found.mean, mean)
  np.testing.assert_array_equal(found.log_variance, log_variance)


def test_samples_of_a_file(runs, capsys):
  saved = saved_latents.read(runs["file"])
  prompts = ["the apple\n", "the fig\n"]
  flags = [f"--prompt={p}" for p in prompts]
  found = sampled(
      capsys, runs, *flags, f"--latent={runs['file']}",
      f"--latent-id={saved.ids[3]}", f"--latent-id={saved.ids[1]}",
  )
  assert [(r["prompt"], r["latent"]) for r in found] == [
      (p, saved.ids[i]) for p in prompts for i in (3, 1)
  ]
  model = ctrl_jax.load(runs["along"])
  expected = model.generate(
      prompts, "Text", latent=saved.mean[[1, 1]], max_new_tokens=4, penalty=1.0
  )
  assert [r["token_ids"] for r in found[1::2]] == [
      s[0].token_ids for s in expected
  ]
  assert len(sampled(
      capsys, runs, flags[0], f"--latent={runs['file']}"
  )) == 5


def test_samples_of_texts(runs, capsys):
  model = ctrl_jax.load(runs["along"])
  prompt = "the apple\n"
  texts = ["the pear\n", "the fig\n", "the plum\n"]
  flags = [f"--prompt={prompt}"]
  flags_of = lambda n: [f"--latent-text={t}" for t in texts[:n]]
  ids = lambda z: [
      s[0].token_ids for s in model.generate(
          [prompt] * len(z), "Text", latent=z, max_new_tokens=4, penalty=1.0
      )
  ]
  means, _ = model.encode(texts, "Text")
  found = sampled(capsys, runs, *flags, "--latent=from-text", *flags_of(2))
  assert [r["token_ids"] for r in found] == ids(means[:2])
  assert [r["latent"] for r in found] == texts[:2]
  found = sampled(
      capsys, runs, *flags, "--latent=interpolate", *flags_of(2),
      "--latent-steps=3",
  )
  assert [r["token_ids"] for r in found] == ids(
      latents.interpolate(*means[:2], 3)
  )
  assert [r["latent"] for r in found] == ["0.00", "0.50", "1.00"]
  found = sampled(capsys, runs, *flags, "--latent=analogy", *flags_of(3))
  assert found[0]["token_ids"] == ids((means[1] - means[0] + means[2])[None])[0]
  pair = sampled(
      capsys, runs, *flags, "--latent=from-text", "--latent-text=fig plum 3.",
      "--latent-prompt=the fig\n",
  )
  z, _ = model.encode(("the fig\n", "fig plum 3."), "Text")
  assert pair[0]["token_ids"] == ids(z)[0]


def test_headings_name_the_latent(runs, capsys):
  code = command_runs.run(
      sample, f"--model={runs['along']}", "--code=Text", "--prompt=the fig\n",
      f"--latent={runs['file']}", "--max-new-tokens=2",
  )
  out = capsys.readouterr().out
  name = saved_latents.read(runs["file"]).ids[0]
  assert code == 0 and f"=== Text 'the fig\\n' z={name!r} 1\n" in out


@pytest.mark.parametrize("arguments, message", [
    (["--model={along}"], "--input"),
    (["--model={along}", "--input={pairs}"], "--output"),
    (["--model={along}", "--input={pairs}", "--output={along}/z"], ".npz"),
    (["--model={base}", "--input={pairs}", "--output={along}/z.npz"],
     "no latent"),
    (["--model={along}", "--input={pairs}", "--output={along}/z.npz",
      "--id={{fruit}}"], "the name 'plum'"),
    (["--model={along}", "--input={pairs}", "--output={along}/z.npz",
      "--target={{story}}"], "no field 'story'"),
])
def test_bad_input_of_encode(runs, capsys, arguments, message):
  code = command_runs.run(encode, *(a.format(**runs) for a in arguments))
  err = capsys.readouterr().err
  assert code == 2 and message in err and err.count("\n") == 1


@pytest.mark.parametrize("arguments, message", [
    (["--model={beside}", "--latent={file}"], "of another model"),
    (["--model={base}", "--latent={file}"], "no latent"),
    (["--model={base}", "--latent=from-text", "--latent-text=a"], "no latent"),
    (["--model={along}", "--latent={file}", "--stream"], "--stream"),
    (["--model={along}", "--latent=gone.npz"], "no file of latents"),
    (["--model={along}", "--next-tokens=2"], "never without its encoder"),
])
def test_bad_input_of_sample(runs, capsys, arguments, message):
  code = command_runs.run(
      sample, "--prompt=the fig\n", "--code=Text",
      *(a.format(**runs) for a in arguments),
  )
  err = capsys.readouterr().err
  assert code == 2 and message in err and err.count("\n") == 1


def test_pairs_without_a_text(tmp_path):
  file = tmp_path / "pairs.jsonl"
  rows = [dict(prompt="A", text="b"), dict(prompt="Old", text=" ")]
  file.write_text("".join(json.dumps(row) + "\n" for row in rows))
  source = Source("jsonl", "", (str(file),), "{prompt}\n", "{text}")
  with pytest.raises(errors.UserError, match="Pair 2 in .* prompt 'Old"):
    encode.read_items(source)
  prompts = Source("jsonl", "", (str(file),), "{prompt}\n")
  assert encode.read_items(prompts) == (["A\n", "Old\n"], ["0", "1"])
