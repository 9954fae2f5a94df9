"""The command `keywords`."""

import json

import pytest
import shared_data

from ctrl_jax import command, keywords
from ctrl_jax.data import keyword_sets
from ctrl_jax.data import keywords as keywords_lib

CONFIG = """
from ctrl_jax import config

def get_config():
  c = config.default()
  c.data.sources = (
      config.source("text", "Books", path="{}/a.txt", piece_chars=50),
  )
  return c
"""


@pytest.fixture
def run(capsys):
  """Runs the command; returns exit code, stdout, stderr."""

  def run(*arguments):
    for name in keywords.FLAGS:
      keywords.FLAGS[name].unparse()
    code = 0
    try:
      command.run(keywords.main, keywords.FLAGS, "", ["k", *arguments])
    except SystemExit as e:
      code = e.code
    return code, *capsys.readouterr()

  return run


@pytest.fixture
def inputs(tmp_path):
  """A configuration over a book, an inventory, and ready rows."""
  folder = tmp_path / "in"
  folder.mkdir()
  (folder / "a.txt").write_text(
      "".join(
          f"The {i} dogs ran far away, {word} the old cats sat down again.\n\n"
          for i in range(150)
          for word in ("however", "and as a result")
      )
  )
  (folder / "config.py").write_text(CONFIG.format(folder))
  (folder / "words.txt").write_text("however\nas_a_result\nnowhere\n")
  (folder / "rows.jsonl").write_text(
      "".join(
          json.dumps(
              dict(keyword="so", prefix="It was", text=f"It was {i}, so so.")
          )
          + "\n"
          for i in range(50)
      )
  )
  return folder


def test_from_a_configuration(run, inputs, tmp_path):
  arguments = [
      f"--config={inputs / 'config.py'}", f"--keywords={inputs / 'words.txt'}",
      f"--output={tmp_path / 'set'}", "--max_prefix_words=5",
  ]
  code, out, err = run(*arguments)
  assert code == 0, err
  assert "2 keywords" in out
  made = keyword_sets.KeywordSet.load(tmp_path / "set")
  assert made.keywords == ("as a result", "however")
  assert sum(map(made.size, keyword_sets.SPLITS)) == 300
  assert made.settings["inventory"] == ["however", "as a result", "nowhere"]
  for triple in made.read("train"):
    assert keywords_lib.holds_keyword(triple.text, triple.keyword)
    assert not keywords_lib.holds_keyword(triple.prefix, triple.keyword)
    assert 3 <= len(triple.prefix.split()) <= 5

  # The same again does nothing; other settings need --force.
  before = (tmp_path / "set" / "manifest.json").stat().st_mtime_ns
  code, again, err = run(*arguments)
  assert (code, again) == (0, out) and "there already" in err
  assert (tmp_path / "set" / "manifest.json").stat().st_mtime_ns == before
  code, _, err = run(*arguments, "--max_prefix_words=4")
  assert code == 2 and "other settings: lengths" in err
  code, _, _ = run(*arguments, "--max_prefix_words=4", "--force")
  assert code == 0
  made = keyword_sets.KeywordSet.load(tmp_path / "set")
  assert max(len(t.prefix.split()) for t in made.read("train")) == 4


def test_from_ready_rows(run, inputs, tmp_path):
  code, out, _ = run(
      f"--triples={inputs / 'rows.jsonl'}", f"--output={tmp_path / 'set'}"
  )
  assert code == 0 and "dropped: none" in out
  made = keyword_sets.KeywordSet.load(tmp_path / "set")
  assert made.keywords == ("so",)
  assert sum(made.counts["so"].values()) == 50


def test_ready_rows_of_a_bases_documents(run, inputs, tmp_path):
  """Of "It was 0, so so." to 49, as many as the base's text has."""
  (inputs / "a.txt").write_text("".join(
      f"It was {i}, so so.\n\n" for i in range(10, 90)
  ))
  arguments = (f"--triples={inputs / 'rows.jsonl'}",
               f"--within={inputs / 'config.py'}",
               f"--output={tmp_path / 'set'}")
  code, out, err = run(*arguments)
  assert code == 0, err
  assert "of no training document" in out
  made = keyword_sets.KeywordSet.load(tmp_path / "set")
  for split in ("train", "validation"):
    assert all(int(t.text[:3]) >= 10 for t in made.read(split))
  assert made.size("train") > 10
  before = (tmp_path / "set" / "manifest.json").read_bytes()
  code, _, err = run(*arguments[:1], arguments[2])
  assert code == 2 and "other settings: within." in err
  assert (tmp_path / "set" / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--triples=IN/rows.jsonl", "--output="], "Give --output"),
        (["--output=OUT"], "Which text"),
        (["--output=OUT", "--config=IN/config.py"], "Which keywords"),
        (["--output=OUT", "--config=IN/config.py", "--keywords=IN/no.txt"],
         "No file"),
        (["--output=OUT", "--config=IN/config.py", "--keywords=IN/empty.txt"],
         "has no keyword"),
        (["--output=OUT", "--config=IN/config.py", "--keywords=IN/other.txt"],
         "No training triple is left (300 no keyword)"),
        (["--output=OUT", "--triples=IN/rows.jsonl", "--min-prefix-words=2"],
         "Leave it out"),
        (["--output=OUT", "--triples=IN/rows.jsonl",
          "--keywords=IN/other.txt"], "50 keyword not in the inventory"),
        (["--output=OUT", "--config=IN/config.py", "--keywords=IN/words.txt",
          "--within=IN/config.py"], "--within is for ready triples"),
        (["--output=OUT", "--triples=IN/a.txt"], "a.txt:1: not a JSON object"),
        (["--output=OUT", "--triples=IN/rows.jsonl", "--min-train=0"],
         "min_train"),
        (["--output=IN", "--triples=IN/rows.jsonl", "--force"],
         "no keyword set of this program"),
    ],
)
def test_bad_input(run, inputs, tmp_path, arguments, message):
  (inputs / "empty.txt").write_text("\n")
  (inputs / "other.txt").write_text("zebra\n")
  places = {"IN": inputs, "OUT": tmp_path / "set"}
  for name, place in places.items():
    arguments = [a.replace(name, str(place)) for a in arguments]
  code, _, err = run(*arguments)
  assert code == 2
  assert message in err.splitlines()[-1]
  assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_real_rows(tmp_path):
  """Every triple of a real set is what it says; bad rows are counted."""
  rows = shared_data.path("keywords/marker_sentences.jsonl.gz")
  made = keywords.make(tmp_path / "set", triples=(str(rows),))
  sizes = {split: made.size(split) for split in keyword_sets.SPLITS}
  total = sum(sizes.values()) + sum(made.dropped.values())
  assert total > 50_000 and sum(made.dropped.values()) < 0.01 * total
  assert abs(sizes["test"] / total - 0.05) < 0.01
  found = [t for split in sizes for t in made.read(split)]
  assert len({t.prefix + t.text for t in found}) == len(found)
  for t in found:
    assert t.keyword in made.counts and t.text[0] == " "
    assert keywords_lib.holds_keyword(t.text, t.keyword)
    assert not keywords_lib.holds_keyword(t.prefix, t.keyword)
