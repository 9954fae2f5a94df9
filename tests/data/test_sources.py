"""Readers: right records, and messages that name the place."""

import gzip
import json

import numpy as np
import pytest

from ctrl_jax import config, errors
from ctrl_jax.data import documents, sources


def read(kind, path, **kwargs):
  kwargs = {"code": "A", **kwargs}
  source = sources.Source.from_config(
      config.source(kind, path=str(path), **kwargs)
  )
  return [d.whole for d in documents.read(source)]


def write(path, content):
  data = content if isinstance(content, bytes) else content.encode()
  opened = gzip.open if path.suffix == ".gz" else open
  with opened(path, "wb") as f:
    f.write(data)
  return path


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_text_is_cut_at_blank_lines_and_joins_to_itself(tmp_path, suffix):
  text = "".join(
      f"line {i}\n" + ("\n" if i % 3 == 0 else "") for i in range(50)
  )
  path = write(tmp_path / f"a.txt{suffix}", text + "no line end")
  parts = read("text", path, piece_chars=60)
  assert "".join(parts) == text + "no line end"
  assert all(len(p) >= 60 and p.endswith("\n\n") for p in parts[:-1])


def test_text_without_blank_lines_is_cut_too():
  parts = list(sources.pieces(iter(["x" * 9 + "\n"] * 100), 10))
  assert [len(p) for p in parts] == [80] * 12 + [40]


def test_jsonl_csv_tsv(tmp_path):
  rows = [{"a": "x, y", "b": 1.5}, {"a": 'q"\n\u00e9', "b": None}]
  jsonl = "\n\n".join(json.dumps(r) for r in rows)
  template = "{{{a}|{b}}}"
  expected = ["{x, y|1.5}", '{q"\n\u00e9|}']
  path = write(tmp_path / "a.jsonl.gz", jsonl)
  assert read("jsonl", path, template=template) == expected
  path = write(tmp_path / "a.csv", 'a,b\n"x, y",1.5\n"q""\n\u00e9",\n')
  assert read("csv", path, template=template) == expected
  path = write(tmp_path / "a.tsv", 'a\tb\nx, y\t1.5\n"q""\n\u00e9"\t\n')
  assert read("tsv", path, template=template) == expected


def test_csv_column_without_a_name(tmp_path):
  """As pandas writes its index."""
  path = write(tmp_path / "a.csv", ",text\n0,one\n1,two\n")
  assert read("csv", path) == ["one", "two"]


def test_globs_variables_and_max_documents(tmp_path, monkeypatch):
  for name in ("b", "a"):
    write(tmp_path / f"{name}.txt", name * 50)
  monkeypatch.setenv("SOME_FOLDER", str(tmp_path))
  assert read("text", "$SOME_FOLDER/*.txt") == ["a" * 50, "b" * 50]
  assert read("text", "${SOME_FOLDER}/*.txt", max_documents=1) == ["a" * 50]


@pytest.mark.parametrize(
    "kind, content, message",
    [
        ("jsonl", b'{"text": "a"}\n{"text"', r"a\.x:2: not JSON"),
        ("jsonl", b"[1]\n", r"a\.x:1: not a JSON object"),
        ("jsonl", b'{"title": 1}\n', r"a\.x:1: no field 'text'.*Known: title"),
        ("csv", b"text,b\n1\n", r"a\.x:2: .*1 columns where the header has 2"),
        ("csv", b"text,b\n1,2,3\n", r"a\.x:2: .*3 columns where the header"),
        ("csv", b'text\n"a"b\n', r"a\.x:2: "),
        ("csv", b"text,b,text\n1,2,3\n", r"a\.x:1: two columns .* 'text'"),
        ("jsonl", b"[" * 200_000, r"a\.x:1: not JSON"),
    ],
)
def test_bad_files(tmp_path, kind, content, message):
  path = write(tmp_path / "a.x", content)
  with pytest.raises(errors.UserError, match=message) as e:
    read(kind, path)
  assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "fields, message",
    [
        (dict(kind="txt"), "Did you mean 'text'"),
        (dict(split="training"), "Did you mean 'train'"),
        (dict(weight=-1.0), "0 or more"),
        (dict(weight=float("nan")), "0 or more"),
        (dict(weight=float("inf")), "0 or more"),
        (dict(weight="1"), "weight='1' is of the wrong type"),
        (dict(code=5), "code=5 is of the wrong type"),
        (dict(template=None), "template=None is of the wrong type"),
        (dict(max_documents=2.5), "max_documents=2.5 is of the wrong type"),
        (dict(path=[1]), "is of the wrong type"),
        (dict(template="the same"), "names no field"),
        (dict(template="{text"), "stands alone"),
        (dict(code=" "), "control code is empty"),
        (dict(code=" cat"), r"space around or twice.*write 'cat'"),
        (dict(code="r/a  b"), r"write 'r/a b'"),
        (dict(code="<unk>"), "no tokenizer can hold"),
        (dict(code="a\ud800"), "no tokenizer can hold"),
        (dict(path=()), "path is empty"),
        (dict(wieght=1.0), "Did you mean 'weight'"),
        (dict(options=dict(min_score=1)), "'text' has no option 'min_score'"),
        (dict(kind="reddit", options=dict(min_scor=1)), "mean 'min_score'"),
        (dict(kind="reddit", options=dict(min_score="1")), "wrong type"),
        (dict(options=3), "options=3 is of the wrong type"),
    ],
)
def test_bad_sources(fields, message):
  good = config.source("text", "A", path="x")
  with pytest.raises(errors.UserError, match=message):
    sources.Source.from_config({**good, **fields})


def test_what_is_no_source():
  with pytest.raises(errors.UserError, match="'abc' is no source"):
    sources.Source.from_config("abc")
  with pytest.raises(errors.UserError, match="lacks code, path"):
    sources.Source.from_config({"kind": "text"})


def test_options_reach_the_reader(tmp_path):
  lines = [
      json.dumps(dict(title=f"t{i}", selftext="", score=i, subreddit="a"))
      for i in range(4)
  ]
  path = write(tmp_path / "RS.gz", "\n".join(lines))
  options = dict(options=dict(min_score=2, subreddit="A"))
  assert read("reddit", path, **options) == ["Title: t2", "Title: t3"]


def test_gutenberg_is_cut_as_text_is(tmp_path):
  mark = "*** {} OF THE PROJECT GUTENBERG EBOOK A ***\n"
  book = "".join(f"line {i}\n\n" for i in range(20))
  path = write(
      tmp_path / "a.txt",
      "Licence\n" + mark.format("START") + book + mark.format("END") + "More\n",
  )
  parts = read("gutenberg", path, piece_chars=60)
  assert "".join(parts) == book and len(parts) > 1


def test_tfds_source(tmp_path):
  from ctrl_jax.data import records, sequences

  writer = records.Writer(tmp_path, "train", 3)
  tokens = np.arange(6, dtype=np.int32).reshape(2, 3)
  rows = sequences.Rows(tokens, tokens.astype(np.uint8), np.full(2, 3, "i4"))
  writer.write(rows, 7)
  records.write_info(tmp_path, 3, [writer.finish()[0]])
  texts = read("tfds", tmp_path, template="{tokens} of {source}")
  assert texts == ["0, 1, 2 of 7", "3, 4, 5 of 7"]
  for path, split in ((tmp_path, "test"), ("no_such_builder", "")):
    with pytest.raises(errors.UserError, match="Cannot read split"):
      read("tfds", path, split=split)
