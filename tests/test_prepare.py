"""The command `prepare`: whole runs, and one line for what a user can mend."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from ctrl_jax import config, errors, prepare, text
from ctrl_jax.data import batches
from ctrl_jax.data import manifest as manifest_lib
from ctrl_jax.interop import tfrecords
from ctrl_jax.text import fastbpe, learn_bpe

CONFIG = """
from ctrl_jax import config

def get_config():
  c = config.default()
  c.data.folder = "$PREPARE_TEST/set"
  c.data.sequence_length = 16
  c.data.sources = (
      config.source("text", "Books", path="$PREPARE_TEST/a.txt",
                    piece_chars=50),
      config.source("text", "Reddit r/cats", path="$PREPARE_TEST/b.txt",
                    piece_chars=50),
  )
  c.tokenizer.vocab_size = 120
  return c
"""


@pytest.fixture(name="c")
def configuration(tmp_path, monkeypatch):
  monkeypatch.setenv("PREPARE_TEST", str(tmp_path))
  for name, word in (("a", "dog"), ("b", "cat")):
    paragraphs = (f"{word} number {i} sat on the mat.\n\n" for i in range(300))
    (tmp_path / f"{name}.txt").write_text("".join(paragraphs))
  (tmp_path / "config.py").write_text(CONFIG)
  scope = {}
  exec(CONFIG, scope)
  c = scope["get_config"]()
  c.data.workers = 1
  return c


def command(tmp_path, *arguments):
  return subprocess.run(
      [
          sys.executable, "-m", "ctrl_jax.prepare",
          f"--config={tmp_path / 'config.py'}", "--config.data.workers=1",
          *arguments,
      ],
      capture_output=True,
      text=True,
      cwd=pathlib.Path(__file__).parents[1],
      env={**os.environ, "PREPARE_TEST": str(tmp_path)},
  )


def names(folder):
  return sorted(p.name for p in folder.iterdir())


def test_command(c, tmp_path):
  before = names(tmp_path)
  result = command(tmp_path)
  assert result.returncode == 0, result.stderr
  assert "Reddit r/cats" in result.stdout and "vocabulary 120" in result.stdout
  assert names(tmp_path) == sorted([*before, "set"])
  manifest = tmp_path / "set" / "manifest.json"
  written = manifest.stat().st_mtime_ns
  again = command(tmp_path)
  assert again.returncode == 0 and "there already" in again.stderr
  assert again.stdout == result.stdout
  assert manifest.stat().st_mtime_ns == written
  other = command(tmp_path, "--config.data.sequence_length=20")
  assert other.returncode == 2
  assert "another configuration: data.sequence_length" in other.stderr
  assert len(other.stderr.splitlines()) == 1
  forced = command(tmp_path, "--config.data.sequence_length=20", "--force")
  assert forced.returncode == 0, forced.stderr
  assert manifest_lib.Manifest.load(tmp_path / "set").sequence_length == 20
  verified = command(tmp_path, "--verify")
  assert verified.returncode == 0 and "as written" in verified.stdout
  with open(tmp_path / "set" / "documents" / "test.jsonl.gz", "r+b") as f:
    f.seek(30)
    f.write(b"\0\1\2")
  damaged = command(tmp_path, "--verify")
  assert damaged.returncode == 2 and "test.jsonl.gz" in damaged.stderr


def _wait_for(condition, seconds=60):
  end = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < end
    time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_killed_and_started_again(c, tmp_path):
  """Its workers end too, and nothing of it stays."""
  before = names(tmp_path)
  with open(tmp_path / "a.txt", "a") as f:
    f.writelines(f"a dog called {i} sat on the mat.\n\n" for i in range(30_000))
  running = subprocess.Popen(
      [
          sys.executable, "-m", "ctrl_jax.prepare",
          f"--config={tmp_path / 'config.py'}", "--config.data.workers=2",
      ],
      stderr=subprocess.DEVNULL,
  )
  _wait_for(lambda: list(tmp_path.glob(".set.partial/*train*")))
  children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children")
  _wait_for(lambda: len(children.read_text().split()) >= 2)
  workers = children.read_text().split()
  running.kill()
  assert running.wait() == -signal.SIGKILL

  def alive(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat")
    return stat.exists() and ") Z" not in stat.read_text()

  _wait_for(lambda: not any(map(alive, workers)))
  assert names(tmp_path) != sorted([*before, "set"])
  result = command(tmp_path)
  assert result.returncode == 0, result.stderr
  assert names(tmp_path) == sorted([*before, "set"])


def test_result_does_not_depend_on_workers_or_place(c, tmp_path):
  one = prepare.prepare(c)
  c.data.folder = str(tmp_path / "two")
  c.data.workers = 2
  two = prepare.prepare(c)
  assert one.hash == two.hash
  assert {k: f for k, f in one.files.items() if "record" in k} == (
      {k: f for k, f in two.files.items() if "record" in k}
  )
  c.data.folder = str(tmp_path / "three")
  c.data.seed = 1
  assert prepare.prepare(c).hash != one.hash


def test_a_loaded_tokenizer(c, tmp_path):
  one = prepare.prepare(c)
  c.tokenizer.path = str(one.tokenizer_folder)
  c.data.folder = str(tmp_path / "two")
  two = prepare.prepare(c)
  assert two.tokenizer_hash == one.tokenizer_hash
  assert two.hash == one.hash
  assert two.vocab_size == text.load_tokenizer(two.tokenizer_folder).vocab_size
  c.data.folder = str(tmp_path / "three")
  c.data.sources = (*c.data.sources, {**c.data.sources[0], "code": "Cats"})
  with pytest.raises(errors.UserError, match="Unknown control code 'Cats'"):
    prepare.prepare(c)
  assert not (tmp_path / "three").exists()


@pytest.mark.parametrize("newlines", ["", *fastbpe.NEWLINES])
def test_the_convention_for_line_ends_is_the_data_sets(c, tmp_path, newlines):
  """Its records are written under it, and its tokenizer says so."""
  line = "the cat sat\n\non the mat"
  learnt = learn_bpe.train([line], ["Books"], 20)
  expected = {n: learnt.encode(line, newlines=n) for n in fastbpe.NEWLINES}
  assert len(set(map(tuple, expected.values()))) == 3
  learnt.save(tmp_path / "tok")
  (tmp_path / "a.txt").write_text(line)
  c.tokenizer.path = str(tmp_path / "tok")
  c.tokenizer.newlines = newlines
  c.data.sources = (
      config.source("text", "Books", path=str(tmp_path / "a.txt"),
                    split="train"),
  )
  c.data.max_unknown = 64  # "sat" is none of the pieces inside a word.
  c.data.sequence_length = 64
  manifest = prepare.prepare(c)
  newlines = newlines or "generation"
  tok = text.load_tokenizer(manifest.tokenizer_folder)
  assert tok.newlines == newlines
  batch = batches.TrainBatches(manifest, 1, 0).batch(0)
  found = batch["tokens"][0, 1:1 + int(batch["weights"].sum())].tolist()
  assert found == expected[newlines]


def test_a_convention_for_line_ends_that_is_none(c, tmp_path):
  c.tokenizer.newlines = "unix"
  with pytest.raises(errors.UserError, match="newlines='unix'"):
    prepare.prepare(c)
  assert "set" not in names(tmp_path)


def test_a_source_in_one_split(c, tmp_path):
  c.data.sources = (
      c.data.sources[0],
      config.source(
          "text", "Books", path=str(tmp_path / "b.txt"), split="test"
      ),
  )
  manifest = prepare.prepare(c)
  start, end = manifest.sources[1].ranges["train"]
  assert start == end
  assert manifest.sources[1].splits["test"].documents > 0
  assert manifest.prior == {"Books": 1.0}
  assert set(batches.TrainBatches(manifest, 8, 0).batch(0)["source"]) == {0}


def test_only_training_documents_teach_the_tokenizer(c, tmp_path):
  (tmp_path / "b.txt").write_text("\u4e2d\u6587 " * 200)
  c.data.sources[1]["split"] = "test"
  c.data.max_unknown = 1000
  manifest = prepare.prepare(c)
  assert manifest.sources[1].splits["test"].unknown > 100


def test_a_source_of_unknown_tokens_alone(c, tmp_path):
  (tmp_path / "b.txt").write_text("\u4e2d" * 50)
  c.data.sources[1]["split"] = "train"
  c.data.max_unknown = 0
  c.tokenizer.learn_from = ("Books=1.0",)
  with pytest.raises(
      errors.UserError, match="1 sequences dropped for unknown_tokens"
  ):
    prepare.prepare(c)


@pytest.mark.parametrize("kind", ["sentencepiece", "fastbpe"])
def test_the_tokenizer_learns_from_named_sources(c, tmp_path, kind):
  word = "\u0449\u0436\u0446\u044e"  # Letters that the other source lacks.
  paragraphs = (f"{word} {i} {word} {word}.\n\n" for i in range(300))
  (tmp_path / "b.txt").write_text("".join(paragraphs))
  c.tokenizer.kind, c.tokenizer.num_merges = kind, 140
  c.data.max_unknown = 1000
  for learn_from in ((), ("Books=1.0",), ("Books=0.5",)):
    c.data.folder = str(tmp_path / f"set{len(names(tmp_path))}")
    c.tokenizer.learn_from = learn_from
    tok = text.load_tokenizer(prepare.prepare(c).tokenizer_folder)
    assert (tok.unknown_id in tok.encode(word)) == bool(learn_from)
    assert tok.unknown_id not in tok.encode("number")


def test_fastbpe_learns_from_all_text_without_a_sample(c, tmp_path):
  c.tokenizer.kind = "fastbpe"
  c.tokenizer.num_merges = 120
  sampled = prepare.prepare(c)
  c.tokenizer.train_chars = 0
  c.data.folder = str(tmp_path / "all")
  # All the text fitted into the sample; ties come in another order.
  tokens = [
      sorted(text.load_tokenizer(m.tokenizer_folder).tokens)
      for m in (sampled, prepare.prepare(c))
  ]
  assert tokens[0] == tokens[1]


def set_field(path, value):
  def change(c, folder):
    del folder
    section, field = path.split(".")
    c[section][field] = value

  return change


def set_source(**fields):
  def change(c, folder):
    del folder
    c.data.sources = ({**c.data.sources[0], **fields}, *c.data.sources[1:])

  return change


def write_file(name, content):
  return lambda c, folder: (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    "change, message",
    [
        (write_file("a.txt", b""), "a.txt' is empty"),
        (write_file("a.txt", b"\xff"), r"a.txt:1: not UTF-8"),
        (write_file("b.txt", b"\n \n"), "'Reddit r/cats.*yields no text"),
        (set_source(path="$NOT_SET/x"), "export NOT_SET="),
        (set_source(template="{txt}"), "Did you mean 'text'"),
        (set_source(code="</s>"), "cannot be a word"),
        (set_field("data.sources", ()), "data.sources is empty"),
        (set_field("data.test_fraction", 1.0), "below 1"),
        (set_field("data.test_fraction", float("nan")), "below 1"),
        (set_field("data.workers", -1), "data.workers=-1 must be 0"),
        (set_field("tokenizer.train_chars", 0), "train_chars=0 must be at"),
        (set_field("tokenizer.learn_from", ("Book=1",)), "mean 'Books'"),
        (set_field("data.sequence_length", 2), "leaves no room for text"),
        (set_field("tokenizer.vocab_size", 9999), "too small for"),
        (set_field("tokenizer.num_merges", 0), "num_merges=0 must be at"),
        (set_field("tokenizer.path", "/nowhere"), "No tokenizer in"),
    ],
)
def test_bad_input_leaves_nothing_behind(c, tmp_path, change, message):
  change(c, tmp_path)
  before = names(tmp_path)
  with pytest.raises(errors.UserError, match=message) as e:
    prepare.prepare(c)
  assert "\n" not in str(e.value)
  assert names(tmp_path) == before


def test_bad_codes_are_refused_before_all_text_is_read(c, monkeypatch):
  c.data.sources[0]["code"] = "Q"
  monkeypatch.setattr(
      prepare.learning, "texts", lambda *_: pytest.fail("read")
  )
  with pytest.raises(errors.UserError, match="'Q' cannot be a word"):
    prepare.prepare(c)


def test_a_failure_keeps_the_old_data_set(c, tmp_path):
  old = prepare.prepare(c)
  (tmp_path / "b.txt").write_bytes(b"\xff")
  with pytest.raises(errors.UserError):
    prepare.prepare(c, force=True)
  manifest_lib.Manifest.load(tmp_path / "set").verify()
  assert manifest_lib.Manifest.load(tmp_path / "set").hash == old.hash


def test_prompts_that_fill_a_sequence(c, tmp_path):
  """They are counted, with the mend; if there are no others, it is an error."""
  rows = [
      dict(prompt="dog " * (30 if i % 10 == 0 else 1), text=f"The mat {i}.")
      for i in range(200)
  ]
  file = tmp_path / "pairs.jsonl"
  file.write_text("".join(json.dumps(row) + "\n" for row in rows))
  pairs = config.source(
      "jsonl", "Books", path=str(file), template="{prompt}", target="{text}",
      name="pairs",
  )
  c.data.sources = (pairs, c.data.sources[1])
  c.data.truncate = True
  found = prepare.report(prepare.prepare(c))
  (line,) = (x for x in found.splitlines() if "a prompt fills them" in x)
  assert line.startswith("20 sequences of 'pairs' are dropped for no_target")
  assert "Raise data.sequence_length" in line
  file.write_text("".join(json.dumps(row) + "\n" for row in rows[::10]))
  c.tokenizer.path = f"{tmp_path}/set/tokenizer"
  c.data.folder = str(tmp_path / "other")
  with pytest.raises(errors.UserError, match="for no_target. Raise data.seq"):
    prepare.prepare(c)


def test_a_foreign_folder_is_left_alone(c, tmp_path):
  (tmp_path / "set").mkdir()
  (tmp_path / "set" / "mine.txt").write_text("mine")
  for force in (False, True):
    with pytest.raises(errors.UserError, match="no data set of this program"):
      prepare.prepare(c, force=force)
  assert names(tmp_path / "set") == ["mine.txt"]
  (tmp_path / "set" / "mine.txt").unlink()
  prepare.prepare(c)  # An empty folder is nobody's.


def test_command_errors_are_one_line(c, tmp_path):
  (tmp_path / "a.txt").unlink()
  result = command(tmp_path)
  assert result.returncode == 2
  assert result.stderr.splitlines()[-1].startswith("Error: No file ")
  assert "Traceback" not in result.stderr
  assert "set" not in names(tmp_path)
  nothing = command(tmp_path, "--verify")
  assert nothing.returncode == 2 and "No prepared data set" in nothing.stderr


def test_stored_configuration_is_plain_json(c):
  manifest = prepare.prepare(c)
  assert json.loads(json.dumps(manifest.config)) == manifest.config
  assert "folder" not in manifest.config["data"]
  assert prepare.prepare(c) == manifest


def test_tfrecords_of_the_original(c, tmp_path):
  """Their sequences are the data set's, token for token."""
  tok = learn_bpe.train(["the cat sat on the mat"], ["Legal"], 20)
  tok.save(tmp_path / "tok")
  code = tok.code_ids("Legal")
  rows = [[*code, *(tok.encode("the cat sat")), i] for i in range(5)]
  file = tmp_path / "a.tfrecords"
  tfrecords.write(file, [*rows, rows[0]], gzipped=True)
  c.data.sources = (
      config.source("tfrecords", "Legal", path=str(file), split="train"),
  )
  with pytest.raises(errors.UserError, match=r"set tokenizer\.path"):
    prepare.prepare(c)
  c.tokenizer.path = str(tmp_path / "tok")
  manifest = prepare.prepare(c)
  (source,) = manifest.sources
  assert source.dropped_documents["duplicate"] == 1
  data = batches.TrainBatches(manifest, 5, 0)
  batch = data.batch(0)
  found = [
      row[: 1 + int(weights.sum())].tolist()
      for row, weights in zip(batch["tokens"], batch["weights"])
  ]
  assert sorted(found) == sorted(rows)
  for change, says in (
      (dict(sequence_length=3), "has 4 tokens: raise"),
      (dict(code="cat"), "not with 'cat'"),
      (dict(ids=[*code, 999]), "outside the vocabulary"),
  ):
    c.data.folder = str(tmp_path / "other")
    length = change.get("sequence_length", 16)
    tfrecords.write(file, [change.get("ids", rows[0])])
    c.data.sequence_length = length
    c.data.sources = (
        config.source("tfrecords", change.get("code", "Legal"),
                      path=str(file), split="train"),
    )
    with pytest.raises(errors.UserError, match=says):
      prepare.prepare(c)
    assert not (tmp_path / "other").exists()
