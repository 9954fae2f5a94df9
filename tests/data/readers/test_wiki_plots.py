"""WikiPlots as published, and as the CVAE's authors cut it."""

import pytest

from ctrl_jax import errors
from ctrl_jax.data import sources
from ctrl_jax.data.readers import wiki_plots

TITLES = "Emma (novel)\nUp (2009 film)\nEmpty\n(500) Days\nX (TV film)\n"


def test_sentences(tmp_path):
  (tmp_path / "titles").write_text(TITLES)
  (tmp_path / "plots").write_text(
      "She is clever.\n\n She errs. \n<EOS>\nUp he goes.\n<EOS>\n<EOS>\nDays.\n"
      "<EOS>\nThe last has no mark.\n"
  )
  found = list(wiki_plots.read([f"{tmp_path}/plots"]))
  assert [tuple(fields.values()) for fields, _ in found] == [
      ("Emma", "Emma (novel)", "book", "She is clever. She errs."),
      ("Up", "Up (2009 film)", "film", "Up he goes."),
      ("(500) Days", "(500) Days", "", "Days."),
      ("X", "X (TV film)", "tv", "The last has no mark."),
  ]
  assert found[2][1] == f"{tmp_path}/titles:4"
  assert "wiki_plots" in sources.READERS


def test_paragraphs(tmp_path):
  (tmp_path / "titles").write_text("A (franchise)\nB (video game)\n")
  (tmp_path / "plots_paragraph").write_text(
      "One. <newline><newline>Two.<newline>Three.\nFour.\n"
  )
  found = [f for f, _ in wiki_plots.read([f"{tmp_path}/plots_paragraph"])]
  assert [f["plot"] for f in found] == ["One.\n\nTwo.\n\nThree.", "Four."]
  assert [f["title"] for f in found] == ["A", "B"]
  assert [f["label"] for f in found] == ["", "game"]


def test_bad_files(tmp_path):
  (tmp_path / "plots").write_text("One.\n<EOS>\nTwo.\n<EOS>\n")
  with pytest.raises(errors.UserError, match="titles' is missing"):
    list(wiki_plots.read([f"{tmp_path}/plots"]))
  (tmp_path / "titles").write_text("A\n")
  with pytest.raises(errors.UserError, match="do not belong together"):
    list(wiki_plots.read([f"{tmp_path}/plots"]))
