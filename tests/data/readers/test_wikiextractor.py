import bz2
import json

import pytest

from ctrl_jax import errors
from ctrl_jax.data.readers import wikiextractor


def page(title, text):
  return json.dumps({
      "id": "12", "revid": "7", "url": "https://en.wikipedia.org/wiki?curid=12",
      "title": title, "text": text,
  })


def test_titles_in_front_and_pages_without_text(tmp_path):
  folder = tmp_path / "AA"
  folder.mkdir()
  (folder / "wiki_00").write_text("\n".join([
      page("Anarchism", "Anarchism\n\nAnarchism is a movement.\n"),  # Old.
      page("AfghanistanHistory", ""),
      page("Autism", "Autism is a condition.\nIt begins early."),
  ]))
  (folder / "wiki_01.bz2").write_bytes(bz2.compress(
      page("\u00c9t\u00e9", "L'\u00e9t\u00e9 est une saison.").encode()
  ))
  found = list(wikiextractor.read([f"{tmp_path}/*/wiki_*"]))
  assert [(f["title"], f["text"]) for f, _ in found] == [
      ("Anarchism", "Anarchism is a movement."),
      ("Autism", "Autism is a condition.\nIt begins early."),
      ("\u00c9t\u00e9", "L'\u00e9t\u00e9 est une saison."),
  ]
  assert found[1][1] == f"{folder}/wiki_00:3"


def test_other_lines_are_refused(tmp_path):
  (tmp_path / "wiki_00").write_text('{"title": "A"}\n')
  with pytest.raises(errors.UserError, match="wiki_00:1: .*--json"):
    list(wikiextractor.read([str(tmp_path / "wiki_00")]))
