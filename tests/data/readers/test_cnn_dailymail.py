import io
import tarfile

from ctrl_jax.data.readers import cnn_dailymail

STORY = (
    "LONDON (CNN) -- It rained.\n\nIt rained again.\n\n@highlight\n\n"
    "It rained\n\n@highlight\n\nAgain\n"
)
EXPECTED = {
    "text": "LONDON (CNN) -- It rained.\n\nIt rained again.",
    "highlights": "It rained\nAgain",
}


def test_stories_in_an_archive_and_in_a_folder(tmp_path):
  (tmp_path / "a1.story").write_text(STORY)
  with tarfile.open(tmp_path / "cnn_stories.tgz", "w:gz") as tar:
    for name in ("cnn/stories/a1.story", "cnn/stories/._a1"):
      info = tarfile.TarInfo(name)
      info.size = len(STORY)
      tar.addfile(info, io.BytesIO(STORY.encode()))
  path = str(tmp_path / "cnn_stories.tgz")
  assert list(cnn_dailymail.read([path])) == [
      (EXPECTED, f"{path}, cnn/stories/a1.story")
  ]
  path = str(tmp_path / "a1.story")
  assert list(cnn_dailymail.read([f"{tmp_path}/*.story"])) == [(EXPECTED, path)]
