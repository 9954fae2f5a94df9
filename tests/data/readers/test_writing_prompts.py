"""WritingPrompts' files and the paper's cleaning."""

import gzip

import pytest

from ctrl_jax import config, errors
from ctrl_jax.data import documents, sources
from ctrl_jax.data.readers import writing_prompts

LONG = "A paragraph that is long enough to stand for itself , " + "w " * 60


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", ""),
        ("I do n't know .", "I don't know."),
        ("It 's Tom 's , they 'll say ; we 'D go !", "It's Tom's, they'll say;"
         " we'D go!"),
        ("He said 'tis so .", "He said 'tis so."),
        ("`` Why ? '' she asked . `` Go . ''", '"Why?" she asked. "Go."'),
        ('" a " b " c "', '"a" b "c"'),
        ("One .  Two\t: three", "One. Two: three"),
        ("One . <newline> Two", "One.\nTwo"),
        ('Left " open', 'Left " open'),
    ],
)
def test_clean(text, expected):
  assert writing_prompts.clean(text) == expected


def test_paragraphs():
  story = (
      f"{LONG} 1 . <newline> <newline> Short one . <newline> <newline>"
      f" {LONG} 2 . <newline> <newline> `` {LONG} 3 . '' <newline> Next line ."
      f" <newline> <newline> <newline> {LONG} 4 . <newline> <newline>"
  )
  clean = writing_prompts.clean(LONG)
  assert writing_prompts.clean_story(story).split("\n\n") == [
      f"{clean} 1. Short one.",
      f'{clean} 2. "{clean} 3."\nNext line.',
      f"{clean} 4.",
  ]
  # A short first paragraph has none before it.
  assert writing_prompts.clean_story("Short . <newline> <newline> B .") == (
      "Short. B."
  )
  assert writing_prompts.clean_story(" <newline> <newline> ") == ""


def write(folder, split, pairs, suffix=""):
  opened = gzip.open if suffix else open
  for end, texts in zip((".wp_source", ".wp_target"), zip(*pairs)):
    with opened(folder / f"{split}{end}{suffix}", "wt") as f:
      f.writelines(text + "\n" for text in texts)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_pairs(tmp_path, suffix):
  write(
      tmp_path, "train",
      [
          ("[ WP ] You wake up .", "I wake ."),
          ("( EU ) : A hero", "He came ."),
          ("No tag [ WP ]", "So ."),
          ("[ WP ]", "No prompt ."),
          ("[ WP ] No story", ""),
      ],
      suffix,
  )
  write(tmp_path, "valid", [("[WP] More .", "It 's me .")], suffix)
  found = list(writing_prompts.read([f"{tmp_path}/*.wp_source{suffix}"]))
  assert [tuple(fields.values()) for fields, _ in found] == [
      ("You wake up.", "[ WP ] You wake up.", "wp", "I wake."),
      ("A hero", "( EU ): A hero", "eu", "He came."),
      ("No tag [ WP ]", "No tag [ WP ]", "", "So."),
      ("More.", "[WP] More.", "wp", "It's me."),
  ]
  assert found[1][1] == f"{tmp_path}/train.wp_source{suffix}:2"


def test_is_a_kind_of_source(tmp_path):
  write(tmp_path, "test", [("[ WP ] Begin .", "The end .")])
  source = sources.Source.from_config(
      config.source(
          "writing_prompts", "Stories", path=f"{tmp_path}/*.wp_source",
          template="{prompt}", target="\n{story}",
      )
  )
  expected = documents.Document("Begin.", "\nThe end.", True)
  assert list(documents.read(source)) == [expected]


def test_bad_files(tmp_path):
  write(tmp_path, "train", [("a", "b")])
  with pytest.raises(errors.UserError, match=r"has no '\.wp_source'"):
    list(writing_prompts.read([f"{tmp_path}/train.wp_target"]))
  (tmp_path / "train.wp_target").write_text("b\nc\n")
  with pytest.raises(errors.UserError, match="do not belong together"):
    list(writing_prompts.read([f"{tmp_path}/train.wp_source"]))
  (tmp_path / "train.wp_target").unlink()
  with pytest.raises(errors.UserError, match="is missing"):
    list(writing_prompts.read([f"{tmp_path}/train.wp_source"]))
