import json
import shutil

import fake_bucket
import pytest

from ctrl_jax import config, errors
from ctrl_jax.data import existing
from ctrl_jax.data import manifest as manifest_lib


def test_the_same_configuration_elsewhere_and_faster(prepared):
  c, manifest = prepared
  identity = existing.identity(c)
  assert identity == json.loads(json.dumps(identity))
  assert existing.find(manifest.folder, identity, "x") == manifest
  other = config.default()
  other.update(c)
  other.data.folder, other.data.workers = "elsewhere", 7
  assert existing.identity(other) == identity
  other.data.seed = 5
  with pytest.raises(errors.UserError, match=r"data\.seed\. .*, or delete it"):
    existing.find(manifest.folder, existing.identity(other), "delete it")


def test_other_text_under_the_same_variable(monkeypatch):
  c = config.default()
  c.data.sources = (config.source("text", "A", path="$MY_TEXT"),)
  c.tokenizer.path = "$MY_TOKENIZER/a"
  monkeypatch.delenv("MY_TOKENIZER", raising=False)
  found = []
  for path in ("a.txt", "b.txt"):
    monkeypatch.setenv("MY_TEXT", path)
    found.append(existing.identity(c))
    assert found[-1]["data"]["sources"][0]["path"] == [path]
    assert found[-1]["tokenizer"]["path"] == "$MY_TOKENIZER/a"
  assert found[0] != found[1]


def test_a_field_younger_than_the_data_set(prepared, copied):
  file = copied / manifest_lib.FILE
  content = json.loads(file.read_text())
  del content["config"]["tokenizer"]["learn_from"]
  file.write_text(json.dumps(content))
  identity = existing.identity(prepared[0])
  assert existing.find(copied, identity, "x") is not None
  identity["tokenizer"]["learn_from"] = ["Books=1.0"]
  with pytest.raises(errors.UserError, match=r": tokenizer\.learn_from\."):
    existing.find(copied, identity, "x")


def fastbpe(num_merges, vocab_size):
  c = config.default()
  c.tokenizer.update(
      kind="fastbpe", num_merges=num_merges, vocab_size=vocab_size
  )
  return existing.identity(c)["tokenizer"]


@pytest.mark.parametrize("stored", [
    dict(kind="fastbpe", vocab_size=30),  # Before there was `num_merges`.
    dict(kind="fastbpe", vocab_size=99, num_merges=30),
    dict(kind="fastbpe", num_merges=30),
])
def test_fastbpes_merges_decide_not_its_vocabulary(prepared, copied, stored):
  identity = existing.identity(prepared[0])
  file = copied / manifest_lib.FILE
  content = json.loads(file.read_text())
  content["config"]["tokenizer"] = stored
  file.write_text(json.dumps(content))
  for size in (7, 30):
    identity["tokenizer"] = fastbpe(num_merges=30, vocab_size=size)
    assert existing.find(copied, identity, "x") is not None
  identity["tokenizer"] = fastbpe(num_merges=8000, vocab_size=30)
  with pytest.raises(errors.UserError, match=r": tokenizer\.num_merges\."):
    existing.find(copied, identity, "x")
  identity["tokenizer"] = existing.identity(config.default())["tokenizer"]
  with pytest.raises(errors.UserError, match=r": tokenizer\.kind\."):
    existing.find(copied, identity, "x")


def test_sentencepieces_vocabulary_decides_not_its_merges(prepared):
  c, manifest = prepared
  other = config.default()
  other.update(c)
  other.tokenizer.num_merges += 1
  identity = existing.identity(other)
  assert existing.find(manifest.folder, identity, "x") == manifest
  other.tokenizer.vocab_size += 1
  with pytest.raises(errors.UserError, match=r": tokenizer\.vocab_size\."):
    existing.find(manifest.folder, existing.identity(other), "x")
  identity["tokenizer"] = fastbpe(num_merges=8000, vocab_size=8192)
  with pytest.raises(errors.UserError, match=r"tokenizer\.kind"):
    existing.find(manifest.folder, identity, "x")


def test_what_may_be_replaced(copied, tmp_path):
  existing.check(copied)
  existing.check(tmp_path / "none")
  (tmp_path / "empty").mkdir()
  existing.check(tmp_path / "empty")
  assert existing.find(tmp_path / "empty", {}, "x") is None
  with pytest.raises(errors.UserError, match="left alone"):
    existing.check(tmp_path)


@pytest.fixture(params=["here", "bucket"])
def place(request, tmp_path, monkeypatch):
  """(folder, what stands there), of a data set here or in a bucket."""
  if request.param == "here":
    return str(tmp_path / "sets" / "a"), tmp_path / "sets" / "a"
  monkeypatch.setenv("CTRL_JAX_CACHE", str(tmp_path / "cache"))
  bucket = fake_bucket.make(tmp_path, monkeypatch)
  return "gs://bucket/sets/a", bucket / "sets" / "a"


def names(folder):
  return sorted(
      p.relative_to(folder).as_posix() for p in folder.rglob("*")
      if p.is_file()
  )


def maker(copied, fails=False):
  """Returns what leaves the records in `work`, the rest in `partial`."""

  def make(partial, work):
    assert not any(partial.iterdir()) and not work.exists()
    large = []
    for file in sorted(p for p in copied.rglob("*") if p.is_file()):
      name = file.relative_to(copied)
      if ".array_record" in file.name:
        large.append(str(work / "1.0.0" / file.name))
        (work / "1.0.0").mkdir(parents=True, exist_ok=True)
        (work / "1.0.0" / file.name).write_bytes(file.read_bytes())
      else:
        (partial / name).parent.mkdir(exist_ok=True)
        (partial / name).write_bytes(file.read_bytes())
    (work / "summary").write_text("x")
    if fails:
      raise errors.UserError("no")
    return large

  return make


def test_gathered_it_is_whole(copied, place):
  folder, there = place
  for _ in range(2):  # The second replaces the first.
    existing.gather(folder, maker(copied))
    assert names(there) == names(copied)
    assert names(there.parent) == [f"a/{name}" for name in names(there)]
  manifest_lib.Manifest.load(folder).verify()


def test_gathering_that_fails_leaves_the_old_one(copied, place):
  folder, there = place
  with pytest.raises(errors.UserError, match="^no$"):
    existing.gather(folder, maker(copied, fails=True))
  assert not there.exists() or not names(there)
  existing.gather(folder, maker(copied))
  with pytest.raises(errors.UserError, match="^no$"):
    existing.gather(folder, maker(copied, fails=True))
  assert names(there) == names(copied)
  manifest_lib.Manifest.load(folder).verify()


def test_what_a_killed_run_gathered_goes(tmp_path):
  folder = tmp_path / "set"

  def killed(partial, work):
    work.mkdir()
    (work / "part").write_text("x")
    shutil.copytree(tmp_path, tmp_path.with_name("as_it_was"))
    raise errors.UserError("no")

  with pytest.raises(errors.UserError, match="^no$"):
    existing.gather(folder, killed)
  as_it_was = tmp_path.with_name("as_it_was")
  (as_it_was / ".set.lock").unlink()
  assert names(as_it_was) == [".set.partial.work/part"]
  with pytest.raises(errors.UserError, match="^no$"):
    with existing.replacing(as_it_was / "set"):
      raise errors.UserError("no")
  assert not list(as_it_was.iterdir())


def test_gathering_replaces_nothing_else(copied, place):
  folder, there = place
  there.mkdir(parents=True)
  (there / "mine.txt").write_text("mine")
  with pytest.raises(errors.UserError, match="left alone"):
    existing.gather(folder, maker(copied))
  assert names(there) == ["mine.txt"]
