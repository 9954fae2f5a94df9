import bz2
import gzip
import json
import lzma

import pytest

from ctrl_jax import errors
from ctrl_jax.data.readers import eli5

ITEMS = [
    {
        "id": "5lcjq6", "question": "Why is the sky blue? --T-- I look up.",
        "document": " <P> Light " * 50, "answer": "It scatters.\u00e9",
    },
    {
        "id": "5lcjq7", "question": "What are tides? --T-- ", "document": "x",
        "answer": "Water [that] moves, \"twice\".",
    },
]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("indent", [None, 1])
def test_posts_whatever_the_chunk(tmp_path, monkeypatch, chunk, indent):
  monkeypatch.setattr(eli5, "_CHUNK", chunk)
  file = tmp_path / "explainlikeimfive_train.json"
  file.write_text(json.dumps(ITEMS, indent=indent, ensure_ascii=False))
  found = list(eli5.read([str(file)]))
  assert [fields for fields, _ in found] == [
      dict(
          title="Why is the sky blue?", selftext="I look up.",
          text="Title: Why is the sky blue? Text: I look up.",
          answer=ITEMS[0]["answer"],
      ),
      dict(
          title="What are tides?", selftext="", text="Title: What are tides?",
          answer=ITEMS[1]["answer"],
      ),
  ]
  assert found[1][1] == f"{file}, item 2"


@pytest.mark.parametrize(
    "content, says",
    [
        (json.dumps(ITEMS)[:-30], "cut short, or no JSON list of objects, at"),
        (json.dumps(ITEMS[0]), "no JSON list"),
        ("[1]", "no JSON list of objects, at .1"),
        (json.dumps(ITEMS) + "[]", "at .\\[\\]"),
        (json.dumps(ITEMS)[:-1] + ",]", "at .\\]"),
        (json.dumps(ITEMS).replace("}, {", "} {"), "at .\\{"),
        ('[{"question": "a"}]', "item 1: no `question` and `answer`"),
        (" ", "cut short"),
    ],
)
def test_other_files_are_refused(tmp_path, content, says):
  (tmp_path / "a.json").write_text(content)
  with pytest.raises(errors.UserError, match=says):
    list(eli5.read([str(tmp_path / "a.json")]))


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_damaged_packed_file(tmp_path, module):
  end = {gzip: "gz", bz2: "bz2", lzma: "xz"}[module]
  file = tmp_path / f"a.json.{end}"
  content = module.compress(json.dumps(ITEMS).encode())
  for damaged in (content[:-9], content[:20] + b"\0\0" + content[22:]):
    file.write_bytes(damaged)
    with pytest.raises(errors.UserError, match=r"a\.json\..*: damaged"):
      list(eli5.read([str(file)]))
