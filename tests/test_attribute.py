"""The command `attribute`."""

import gzip
import json

import evaluation_fakes as fakes
import pytest

from ctrl_jax import attribute, command


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  folder = tmp_path_factory.mktemp("attribute") / "export"
  fakes.write_export(folder, prior=fakes.PRIOR, codes=fakes.CODES)
  return folder


@pytest.fixture
def run(capsys):
  """Runs the command; returns exit code, stdout, stderr."""

  def run(*arguments):
    attribute.FLAGS.unparse_flags()
    for name in attribute.FLAGS:
      attribute.FLAGS[name].unparse()
    code = 0
    try:
      command.run(attribute.main, attribute.FLAGS, "", ["a", *arguments])
    except SystemExit as e:
      code = e.code
    return code, *capsys.readouterr()

  return run


def test_table(run, model):
  code, out, _ = run(f"--model={model}", "--text=cat purr", "--text=woof")
  assert code == 0
  assert "cat purr" in out and "woof" in out
  assert out.count("p(code|text)") == 2
  assert out.count("Big r/birds") == 2


def test_json_lines(run, model, tmp_path):
  texts = tmp_path / "texts.jsonl.gz"
  with gzip.open(texts, "wt") as f:
    f.write('{"text": "meow"}\n\n{"text": "a\\nb"}\n')
  target = tmp_path / "new" / "ranking.jsonl"
  code, out, _ = run(
      f"--model={model}", f"--texts_file={texts}", "--format=json",
      "--codes=Cats,Dogs", "--prior=data", f"--output={target}",
  )
  assert (code, out) == (0, "")
  lines = [json.loads(line) for line in target.read_text().splitlines()]
  assert [line["text"] for line in lines] == ["meow", "a\nb"]
  for line in lines:
    assert {r["code"] for r in line["ranking"]} == {"Cats", "Dogs"}
    p = [r["posterior"] for r in line["ranking"]]
    assert p == sorted(p, reverse=True)
    assert sum(p) == pytest.approx(1)


def test_plain_texts_and_top(run, model, tmp_path):
  texts = tmp_path / "texts.txt"
  texts.write_text("cat\n\ndog\n")
  code, out, _ = run(f"--model={model}", f"--texts_file={texts}", "--top=1")
  assert code == 0
  assert len([line for line in out.splitlines() if line]) == 6


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--text=a"], "Give --model"),
        (["--model=MODEL"], "Give --text"),
        (["--model=MODEL", "--text="], "Text 1 of 1 is empty"),
        (["--model=MODEL", "--text=a", "--codes=Cat"], "mean 'Cats'"),
        (["--model=MODEL", "--texts_file=none.txt"], "No file 'none.txt'"),
        (["--model=nowhere", "--text=a"], "is no folder here"),
        (["--model=MODEL", "--text=a", "--prior=x"], "prior"),
        (["--model=MODEL", "a"], "Unexpected argument 'a'"),
    ],
)
def test_bad_input(run, model, arguments, message):
  code, out, err = run(*[a.replace("MODEL", str(model)) for a in arguments])
  assert (code, out) == (2, "")
  assert err.startswith("Error:") and err.count("\n") == 1
  assert message in err


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("t.txt", b"\n \n", "holds no text"),
        ("t.txt", b"ok\n\xff\n", "t.txt:2: not UTF-8"),
        ("t.jsonl", b"{}\n", "t.jsonl:1: not a JSON object"),
        ("t.jsonl", b'{"text": ""}\n', "t.jsonl:1: `text` must be"),
        ("t.jsonl", b'{"text": 3}\n', "t.jsonl:1: `text` must be"),
        ("t.txt.gz", b"not gzip", "damaged gzip"),
    ],
)
def test_bad_files(run, model, tmp_path, name, content, message):
  (tmp_path / name).write_bytes(content)
  code, _, err = run(f"--model={model}", f"--texts_file={tmp_path / name}")
  assert code == 2
  assert message in err
