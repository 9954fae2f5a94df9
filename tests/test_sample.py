"""The command `sample`, with a tiny model in place of a trained one."""

import json

import command_runs
import pytest
from decoding_fakes import (
    BY_HAND,
    BY_HAND_TOKENS,
    Characters,
    constant,
    model,
)

from ctrl_jax import decoding, sample
from ctrl_jax.decoding import presets


class Model:
  """What `ctrl_jax.load` returns, as far as `sample` uses it."""

  tokenizer = Characters()
  heads = {}
  cvae = None

  def __init__(self, generator=None):
    self.generator = generator or model()[0]

  def generate(
      self, prompts, code=None, *, on_text=None, rules="paper", **options
  ):
    options = presets.options(rules, self.tokenizer) | options
    return decoding.generate(
        self.generator, self.tokenizer, prompts, code,
        decoding.GenerationOptions(**options), on_text=on_text,
    )


@pytest.fixture
def run(capsys):
  """Runs the command; returns (exit code, stdout, stderr)."""

  def call(*arguments, load=lambda path: Model()):
    code = command_runs.run(
        sample, *arguments, main=lambda: sample.main(load)
    )
    return code, *capsys.readouterr()

  return call


def test_text(run):
  code, out, err = run(
      "--model=m", "--code=Books", "--prompt=Hello", "--max-new-tokens=12"
  )
  assert (code, err) == (0, "")
  assert out.startswith("Hello") and len(out) > len("Hello\n")
  assert run(
      "--model=m", "--code=Books", "--prompt=Hello", "--max_new_tokens=12"
  )[1] == out


def test_streamed_text_is_the_same(run):
  arguments = ("--model=m", "--code=Books", "--prompt=Hello",
               "--max-new-tokens=12")
  assert run(*arguments, "--stream") == run(*arguments)


def test_json_of_a_file_of_prompts(run, tmp_path):
  file = tmp_path / "prompts.jsonl"
  file.write_text(
      '{"prompt": "One", "code": "Legal"}\n\n{"prompt": "Two"}\n'
  )
  code, out, _ = run(
      "--model=m", "--code=Books", f"--prompts-file={file}", "--format=json",
      "--num-samples=2", "--temperature=1", "--max-new-tokens=5",
  )
  records = [json.loads(line) for line in out.splitlines()]
  assert code == 0
  assert [(r["prompt"], r["code"], r["sample"]) for r in records] == [
      ("One", "Legal", 0), ("One", "Legal", 1),
      ("Two", "Books", 0), ("Two", "Books", 1),
  ]
  assert all(len(r["token_ids"]) == 5 for r in records)


def test_lines_of_a_file_and_an_output_file(run, tmp_path):
  file, output = tmp_path / "prompts.txt", tmp_path / "out.txt"
  file.write_text("One\nTwo\n")
  code, out, _ = run(
      "--model=m", f"--prompts-file={file}", f"--output={output}",
      "--max-new-tokens=5",
  )
  assert (code, out) == (0, "")
  assert output.read_text().count("=== ") == 2
  assert sorted(p.name for p in tmp_path.iterdir()) == [
      "out.txt", "prompts.txt",
  ]


def test_a_code_alone_is_a_prompt(run):
  code, out, _ = run("--model=m", "--code=Legal", "--max-new-tokens=5")
  assert code == 0 and out.strip()


def test_next_tokens_and_plot(run, tmp_path):
  plot = tmp_path / "next.png"
  code, out, err = run(
      "--model=m", "--code=Books", "--prompt=a$b$", "--next-tokens=4",
      f"--plot={plot}",
  )
  assert (code, err) == (0, "")
  assert len(out.splitlines()) == 5 and "%" in out
  assert plot.read_bytes().startswith(b"\x89PNG")
  record = json.loads(run(
      "--model=m", "--code=Books", "--next-tokens=4", "--format=json"
  )[1])
  assert len(record["next_tokens"]) == 4


@pytest.mark.parametrize("rules", BY_HAND_TOKENS)
def test_rules(run, rules):
  arguments = (
      "--model=m", "--prompt=\n", "--format=json", "--max-new-tokens=4",
      f"--rules={rules}",
  )
  load = lambda path: Model(constant(BY_HAND))
  code, out, _ = run(*arguments, load=load)
  assert code == 0
  assert json.loads(out)["token_ids"] == BY_HAND_TOKENS[rules]
  _, out, _ = run(*arguments, "--ban=\n", load=load)  # Given beside them.
  assert 10 not in json.loads(out)["token_ids"]


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((), "--model"),
        (("--model=m",), "control code"),
        (("--model=m", "--prompt="), "control code"),
        (("--model=m", "--code=Leggal"), "Did you mean 'Legal'?"),
        (("--model=m", "--code=Legal", "--temperature=-1"), "temperature"),
        (("--model=m", "--code=Legal", "--latent=mean", "--next-tokens=2"),
         "--latent"),
        (("--model=m", "--code=Legal", "--temperature=hot"), "temperature"),
        (("--model=m", "--code=Legal", "--top-k=-1"), "top_k"),
        (("--model=m", "--code=Legal", "--top-p=0"), "top_p"),
        (("--model=m", "--code=Legal", "--next-tokens=0"), "next-tokens"),
        (("--model=m", "--code=Legal", "--plot=x.png"), "--next-tokens"),
        (("--model=m", "--code=Legal", "--tempo=1"), "tempo"),
        (("--model=m", "--code=Legal", "--prompts-file=no.txt"), "no.txt"),
        (("--model=m", "--code=Legal", "--output=no/dir/out.txt"), "no/dir"),
        (("--model=m", "--code=Legal", "--ban=@@@"), "ban"),
        (("--model=m", "--code=Legal", "--rules=relase"), "--rules"),
        (("--model=m", "--code=Legal", "--stream", "--num-samples=2"),
         "--stream"),
    ],
)
def test_bad_input_is_one_line(run, arguments, said):
  code, out, err = run(*arguments)
  assert (code, out) == (2, "")
  assert said in err and err.count("\n") == 1


def test_help_names_every_option(run):
  code, out, _ = run("--help")
  assert code == 0
  assert "--next-tokens" in out and "--penalty-rule=paper" in out
