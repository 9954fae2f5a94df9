"""Abstracts, a file a topic."""

import pytest

from ctrl_jax import errors
from ctrl_jax.data import sources
from ctrl_jax.data.readers import arxiv_abstracts


def test_topics(tmp_path):
  for topic in ("artificial intelligence_10047_15000_15", "computer vision"):
    (tmp_path / f"{topic}_abs.txt").write_text(f"We study {topic[:3]}.\n\nB.\n")
    (tmp_path / f"{topic}_title.txt").write_text("On it\nNone\n\n")
  found = list(arxiv_abstracts.read([f"{tmp_path}/*_abs.txt"]))
  assert [tuple(fields.values()) for fields, _ in found] == [
      ("On it", "We study art.", "artificial intelligence"),
      ("", "B.", "artificial intelligence"),
      ("On it", "We study com.", "computer vision"),
      ("", "B.", "computer vision"),
  ]
  assert found[3][1] == f"{tmp_path}/computer vision_abs.txt:3"
  assert "arxiv_abstracts" in sources.READERS


def test_bad_files(tmp_path):
  (tmp_path / "a_abs.txt").write_text("One.\nTwo.\n")
  with pytest.raises(errors.UserError, match=r"a_title\.txt' is missing"):
    list(arxiv_abstracts.read([f"{tmp_path}/a_abs.txt"]))
  (tmp_path / "a_title.txt").write_text("A\n")
  with pytest.raises(errors.UserError, match="do not belong together"):
    list(arxiv_abstracts.read([f"{tmp_path}/a_abs.txt"]))
