import gzip
import json

import pytest

from ctrl_jax import errors
from ctrl_jax import split as command
from ctrl_jax.data import documents, sources


def rows(folder, name):
  with gzip.open(folder / f"{name}.jsonl.gz", "rt") as f:
    return [json.loads(line) for line in f]


@pytest.fixture
def records(tmp_path):
  file = tmp_path / "in.jsonl"
  content = [dict(title=f"t{i}", story=f"Story {i % 90}.") for i in range(100)]
  content.append(dict(title="none", story="  "))
  file.write_text("".join(json.dumps(row) + "\n" for row in content))
  return str(file)


def test_each_text_once_and_the_same_every_time(tmp_path, records):
  options = dict(prompt="{title}", text="{story}", validation=0.2, test=0.2)
  counts = command.split((records,), tmp_path / "a", **options)
  command.split((records,), tmp_path / "b", **options)
  found = {name: rows(tmp_path / "a", name) for name in counts}
  assert {name: len(x) for name, x in found.items()} == counts
  texts = [row["text"] for x in found.values() for row in x]
  assert sorted(texts) == sorted(f"Story {i}." for i in range(90))
  assert min(counts.values()) > 5
  for name in counts:
    file = f"{name}.jsonl.gz"
    same = (tmp_path / "a" / file).read_bytes()
    assert same == (tmp_path / "b" / file).read_bytes()
  assert found["train"][0]["prompt"].startswith("t")
  other = command.split((records,), tmp_path / "c", seed=1, **options)
  assert rows(tmp_path / "c", "test") != found["test"] and sum(
      other.values()
  ) == 90


def test_another_template_decides(tmp_path):
  """As `prepare` splits documents of that template."""
  file = tmp_path / "in.jsonl"
  file.write_text("".join(
      json.dumps(dict(title=f"t{i} ", text=f"Text {i}.")) + "\n"
      for i in range(200)
  ))
  command.split(
      (str(file),), tmp_path / "a", prompt="{title}", by="{title}\n{text}",
      validation=0.2, test=0.1,
  )
  splitter = documents.Splitter(0, 0.2, 0.1)
  found = rows(tmp_path / "a", "test")
  assert [row["prompt"] for row in found] == [
      f"t{i}" for i in range(200)
      if splitter.place(splitter.digest(f"t{i} \nText {i}.")) == "test"
  ]
  assert 5 < len(found) < 40


def test_short_texts_are_left_out_and_the_rest_stays_where_it_was(tmp_path):
  file = tmp_path / "in.jsonl"
  file.write_text("".join(
      json.dumps(dict(prompt="p", text=f"Story {i}{' on' * (i % 3)}.")) + "\n"
      for i in range(90)
  ))
  parts = dict(validation=0.2, test=0.2)
  all_ = command.split((str(file),), tmp_path / "all", **parts)
  long = command.split((str(file),), tmp_path / "long", min_words=3, **parts)
  assert sum(all_.values()) == 90 and sum(long.values()) == 60
  for name in all_:
    assert rows(tmp_path / "long", name) == [
        row for row in rows(tmp_path / "all", name)
        if len(row["text"].split()) >= 3
    ]
  with pytest.raises(errors.UserError, match="a text of at least 9 words"):
    command.split((str(file),), tmp_path / "none", min_words=9)
  assert not (tmp_path / "none").exists()


def test_a_share_is_of_training_texts(tmp_path):
  file = tmp_path / "in.jsonl"
  file.write_text("".join(
      json.dumps(dict(prompt="p", text=f"Story {i}.")) + "\n"
      for i in range(200)
  ))
  found = {}
  for share in ((0, 1), (0, 0.5), (0.5, 1)):
    folder = tmp_path / str(share)
    command.split((str(file),), folder, train_share=share)
    found[share] = {name: rows(folder, name) for name in sources.SPLITS}
  whole, *halves = found.values()
  for half in halves:
    assert half["test"] == whole["test"]
    assert half["validation"] == whole["validation"]
    assert 60 < len(half["train"]) < 120
  assert sorted(map(str, whole["train"])) == sorted(
      str(row) for half in halves for row in half["train"]
  )
  # As `prepare` with data.share does.
  splitter = documents.Splitter(0, 0.05, 0.05)
  assert all(
      splitter.is_in(splitter.digest(row["text"]), (0, 0.5))
      for row in halves[0]["train"]
  )


@pytest.mark.parametrize("share", ["0", "0.5,0.5", "0,2", "a,b", "0,0.5,1"])
def test_bad_shares(tmp_path, records, share):
  with pytest.raises(errors.UserError, match="train.share=.*two numbers"):
    command.split(
        (records,), tmp_path / "out", prompt="{title}", text="{story}",
        train_share=command._share(share.split(",")),
    )
  assert not (tmp_path / "out").exists()


def test_outlines(tmp_path):
  file = tmp_path / "in.jsonl"
  file.write_text(json.dumps(dict(
      prompt="A walk", text="The old dog ran.\n\nIt met a cat and a red fox."
  )) + "\n")
  for count, expected in ((2, ["old dog ran", "met"]), (9, [
      "old dog ran", "met", "red fox"
  ])):
    command.split((str(file),), tmp_path / str(count), outline=count)
    found = [
        row for name in ("train", "validation", "test")
        for row in rows(tmp_path / str(count), name)
    ]
    assert [row["outline"] for row in found] == [expected]


def test_bad_input(tmp_path, records):
  with pytest.raises(errors.UserError, match="no field 'text'"):
    command.split((records,), tmp_path / "out", prompt="{title}")
  empty = tmp_path / "empty.jsonl"
  empty.write_text('{"prompt": "a", "text": ""}\n')
  with pytest.raises(errors.UserError, match="No record of"):
    command.split((str(empty),), tmp_path / "out")
  with pytest.raises(errors.UserError, match="data.validation_fraction"):
    command.split((records,), tmp_path / "out", validation=2.0)
  assert not (tmp_path / "out").exists()
